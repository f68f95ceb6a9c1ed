//! The statistics of each tool from the journal: calls, failures and durations, in total and over time.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use haft_journal::{Granted, Outcome, Outline, View};

/// The maximum number of calls counted, from the end: fifty a minute for a day, or the last seconds of a busy
/// server.
const MAX_CALLS: usize = 100_000;

/// The maximum number of lines read for them.
const MAX_LINES: usize = 2 * MAX_CALLS;

/// The maximum number of tools; calls of further ones are ignored.
const MAX_TOOLS: usize = 500;

/// The minimum time span of a curve.
const SHORTEST: SignedDuration = SignedDuration::from_mins(1);

/// The maximum delay between the time of a line and its position.
const SLACK: SignedDuration = SignedDuration::from_mins(1);

const PARTS: usize = 48;

#[derive(Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// The start, in milliseconds since 1970.
    since: i64,
    until: i64,
    /// Whether earlier calls of the requested time are omitted.
    is_cut: bool,
    tools: Vec<ToolFigures>,
    /// The names of unknown tools, with the number of calls.
    unknown: BTreeMap<String, usize>,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct ToolFigures {
    name: String,
    #[serde(flatten)]
    whole: Part,
    refused: usize,
    curve: Vec<Part>,
    /// The origin, the digest and the grant of the last call.
    origin: Option<String>,
    digest: Option<String>,
    grant: Option<Granted>,
}

/// The statistics of a tool in one part of the time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Part {
    calls: usize,
    failed: usize,
    p50: Option<f32>,
    p99: Option<f32>,
}

struct Sample {
    time: Timestamp,
    outcome: Outcome,
    milliseconds: f32,
}

/// The calls of a tool, newest first.
#[derive(Default)]
struct Called {
    samples: Vec<Sample>,
    last: ToolFigures,
}

/// Returns the statistics of the calls that ended in the last `hours`.
pub(crate) fn figures(directory: &Path, hours: u8) -> io::Result<Figures> {
    let until = Timestamp::now();
    let asked = until.checked_sub(SignedDuration::from_hours(hours.into())).unwrap_or(until);
    let (mut tools, mut count, mut looked) = (HashMap::<String, Called>::new(), 0, 0);
    let (mut since, mut is_cut, mut unknown) = (asked, false, BTreeMap::new());
    let earliest = asked.checked_sub(SLACK).unwrap_or(asked);
    View::open(directory)?.backward(|outline, record| {
        looked += 1;
        if outline.written().is_some_and(|written| written < earliest) {
            return ControlFlow::Break(());
        }
        if outline.time < asked {
            return ControlFlow::Continue(());
        }
        if count >= MAX_CALLS || looked > MAX_LINES {
            (since, is_cut) = (outline.time, true);
            return ControlFlow::Break(());
        }
        if outline.outcome == Outcome::UnknownTool {
            if unknown.len() < MAX_TOOLS || unknown.contains_key(&outline.tool) {
                *unknown.entry(outline.tool.clone()).or_default() += 1;
            }
        } else if outline.outcome != Outcome::Started
            && (tools.len() < MAX_TOOLS || tools.contains_key(&outline.tool))
        {
            count += 1;
            tools.entry(outline.tool.clone()).or_insert_with(|| Called::of(record())).add(outline);
        }
        ControlFlow::Continue(())
    })?;
    if !is_cut {
        since = first(&tools, until).unwrap_or(asked);
    }
    let mut tools: Vec<_> =
        tools.into_iter().map(|(name, called)| called.figures(name, since, until)).collect();
    tools.sort_unstable_by(|first, second| {
        (second.whole.calls, &first.name).cmp(&(first.whole.calls, &second.name))
    });
    Ok(Figures { since: since.as_millisecond(), until: until.as_millisecond(), is_cut, tools, unknown })
}

/// Returns the start of the first call, but at least [`SHORTEST`] before `until`.
fn first(tools: &HashMap<String, Called>, until: Timestamp) -> Option<Timestamp> {
    let times = tools.values().flat_map(|called| &called.samples).map(|sample| sample.time);
    Some(times.min()?.min(until.checked_sub(SHORTEST).ok()?))
}

impl Called {
    fn of(last: Option<haft_journal::Record>) -> Self {
        let last = last.map(|record| ToolFigures {
            origin: record.origin,
            digest: record.digest,
            grant: record.grant,
            ..ToolFigures::default()
        });
        Self { samples: Vec::new(), last: last.unwrap_or_default() }
    }

    fn add(&mut self, outline: &Outline) {
        #[expect(clippy::cast_possible_truncation, reason = "a duration to be shown")]
        let milliseconds = outline.ran_ms().unwrap_or_default() as f32;
        self.samples.push(Sample { time: outline.time, outcome: outline.outcome, milliseconds });
    }

    fn figures(self, name: String, since: Timestamp, until: Timestamp) -> ToolFigures {
        let whole = part(self.samples.iter());
        let refused = self.samples.iter().filter(|sample| sample.outcome == Outcome::Refused).count();
        let length = (until.as_millisecond() - since.as_millisecond()).max(1);
        let place = |sample: &Sample| {
            let at = (sample.time.as_millisecond() - since.as_millisecond()).max(0);
            usize::try_from(at).unwrap_or_default() * PARTS / usize::try_from(length).unwrap_or(1)
        };
        let mut parts: Vec<Vec<&Sample>> = vec![Vec::new(); PARTS];
        for sample in &self.samples {
            if let Some(part) = parts.get_mut(place(sample).min(PARTS - 1)) {
                part.push(sample);
            }
        }
        let curve = parts.into_iter().map(|part| self::part(part.into_iter())).collect();
        ToolFigures { name, whole, refused, curve, ..self.last }
    }
}

fn part<'s>(samples: impl Iterator<Item = &'s Sample>) -> Part {
    let (mut durations, mut failed) = (Vec::new(), 0);
    for sample in samples {
        durations.push(sample.milliseconds);
        failed += usize::from(sample.outcome.is_failure());
    }
    durations.sort_unstable_by(f32::total_cmp);
    let [p50, p99] = [50, 99].map(|percent| percentile(&durations, percent));
    Part { calls: durations.len(), failed, p50, p99 }
}

/// Returns the smallest value that `percent` percent of the values do not exceed.
fn percentile(sorted: &[f32], percent: usize) -> Option<f32> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let values: Vec<f32> = (1..=100_u8).map(f32::from).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 99)), (Some(50.0), Some(99.0)));
        assert_eq!((percentile(&[7.0], 99), percentile(&[], 50)), (Some(7.0), None));
    }
}
