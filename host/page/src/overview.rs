//! The first view: the running calls and their callers, the totals of today, and the refusals.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use jiff::{SignedDuration, Timestamp, Zoned};
use serde::Serialize;

use crate::history::{Hint, Row, is_alive, who};
use haft_journal::{Outcome, Outline, Record, View};

/// The maximum number of lines read, from the end: a second's work. The response reports that it was reached.
const MAX_LINES: usize = 200_000;

/// The maximum age of a running call, unless today began earlier.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// The maximum delay between the time of a line and its position.
const SLACK: SignedDuration = SignedDuration::from_mins(1);

/// The maximum number of running calls shown.
const MAX_RUNNING: usize = 50;

/// The maximum number of callers counted, and of rows sent, those with the most calls.
const MAX_CALLERS: (usize, usize) = (500, 10);

/// The maximum number of different refusals counted, and of rows sent, the latest.
const MAX_REFUSALS: (usize, usize) = (200, 10);

/// The maximum number of refused calls whose complete line is parsed; further ones are only counted.
const MAX_REFUSED: usize = 2000;

/// The maximum number of hours of a day, at the end of summer time.
const HOURS: usize = 25;

#[derive(Debug, Default, Serialize)]
pub(crate) struct Overview {
    /// The start of today, or of the lines that were read, in milliseconds since 1970.
    since: i64,
    /// Whether earlier calls of today are omitted.
    is_cut: bool,
    /// The running calls, newest first.
    running: Vec<Row>,
    /// The number of calls of today that have ended.
    calls: usize,
    failed: usize,
    /// The number of failed calls that were refused.
    refused: usize,
    /// The calls in each hour of today.
    hours: Vec<Hour>,
    callers: Vec<Caller>,
    refusals: Vec<Refusal>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Hour {
    calls: usize,
    failed: usize,
}

#[derive(Debug, Default, Serialize)]
struct Caller {
    name: String,
    program: String,
    calls: usize,
    failed: usize,
    /// The start of the last call.
    last: i64,
}

/// The calls of one tool that were refused for one reason.
#[derive(Debug, Serialize)]
struct Refusal {
    tool: String,
    count: usize,
    /// The id and the time of the last of these calls.
    id: String,
    time: i64,
    why: String,
    hint: Option<Hint>,
}

/// The data gathered while the lines are read, from the last to the first.
struct Day {
    begun: Timestamp,
    shown: Overview,
    ended: HashSet<String>,
    callers: HashMap<(String, String), Caller>,
    refusals: HashMap<(String, String), Refusal>,
}

/// Returns the overview of today, in this machine's time zone.
pub(crate) fn overview(directory: &Path) -> io::Result<Overview> {
    let now = Zoned::now();
    let begun = now.start_of_day().map_err(io::Error::other)?.timestamp();
    let earliest = begun.min(before(now.timestamp(), LONGEST));
    let mut day = Day::new(begun);
    let mut looked = 0;
    View::open(directory)?.backward(|outline, record| {
        looked += 1;
        if outline.written().is_some_and(|written| written < before(earliest, SLACK)) {
            return ControlFlow::Break(());
        }
        if looked > MAX_LINES {
            let is_cut = outline.time >= begun;
            let since = if is_cut { outline.time } else { begun };
            (day.shown.since, day.shown.is_cut) = (since.as_millisecond(), is_cut);
            return ControlFlow::Break(());
        }
        day.look(outline, record);
        ControlFlow::Continue(())
    })?;
    Ok(day.shown())
}

fn before(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_sub(by).unwrap_or(Timestamp::MIN)
}

impl Day {
    fn new(begun: Timestamp) -> Self {
        let hours = vec![Hour::default(); HOURS];
        let shown = Overview { since: begun.as_millisecond(), hours, ..Overview::default() };
        let (callers, refusals) = (HashMap::new(), HashMap::new());
        Self { begun, shown, ended: HashSet::new(), callers, refusals }
    }

    fn look(&mut self, outline: &Outline, record: &dyn Fn() -> Option<Record>) {
        if outline.outcome == Outcome::Started {
            let is_over = self.ended.remove(&outline.id) || !is_alive(outline.pid);
            if !is_over && self.shown.running.len() < MAX_RUNNING {
                self.shown.running.extend(record().map(|record| Row::new(&record)));
            }
            return;
        }
        self.ended.insert(outline.id.clone());
        if outline.time >= self.begun {
            self.count(outline);
            if outline.outcome == Outcome::Refused && self.shown.refused <= MAX_REFUSED {
                self.refuse(record());
            }
        }
    }

    fn count(&mut self, outline: &Outline) {
        let failed = usize::from(outline.outcome.is_failure());
        let hour = usize::try_from(outline.time.duration_since(self.begun).as_hours()).unwrap_or_default();
        if let Some(hour) = self.shown.hours.get_mut(hour.min(HOURS - 1)) {
            hour.calls += 1;
            hour.failed += failed;
        }
        self.shown.calls += 1;
        self.shown.failed += failed;
        self.shown.refused += usize::from(outline.outcome == Outcome::Refused);
        let (key, is_full) = (who(outline), self.callers.len() >= MAX_CALLERS.0);
        if is_full && !self.callers.contains_key(&key) {
            return;
        }
        let new = || Caller { name: key.0.clone(), program: key.1.clone(), ..Caller::default() };
        let caller = self.callers.entry(key.clone()).or_insert_with(new);
        caller.calls += 1;
        caller.failed += failed;
        caller.last = caller.last.max(outline.time.as_millisecond());
    }

    /// Counts a refusal together with those that have an equal hint or text.
    fn refuse(&mut self, record: Option<Record>) {
        let Some(row) = record.map(|record| Row::new(&record)) else { return };
        let why = row.error.as_deref().and_then(|error| error.lines().next()).unwrap_or_default().to_owned();
        let reason = row.hint.as_ref().map_or_else(|| why.clone(), |hint| hint.text.clone());
        if let Some(known) = self.refusals.get_mut(&(row.tool.clone(), reason.clone())) {
            known.count += 1;
        } else if self.refusals.len() < MAX_REFUSALS.0 {
            let Row { id, time, tool, hint, .. } = row;
            let refusal = Refusal { tool: tool.clone(), count: 1, id, time, why, hint };
            self.refusals.insert((tool, reason), refusal);
        }
    }

    fn shown(self) -> Overview {
        let mut callers: Vec<_> = self.callers.into_values().collect();
        callers
            .sort_unstable_by(|first, second| (second.calls, &first.name).cmp(&(first.calls, &second.name)));
        callers.truncate(MAX_CALLERS.1);
        let mut refusals: Vec<_> = self.refusals.into_values().collect();
        refusals.sort_unstable_by(|first, second| (second.time, &first.id).cmp(&(first.time, &second.id)));
        refusals.truncate(MAX_REFUSALS.1);
        Overview { callers, refusals, ..self.shown }
    }
}
