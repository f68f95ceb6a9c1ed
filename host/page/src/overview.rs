//! What a person sees first: which calls run and for whom, what today came to, and what was refused.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use jiff::{SignedDuration, Timestamp, Zoned};
use serde::Serialize;

use crate::history::{Hint, Row, is_alive, who};
use haft_journal::{Outcome, Outline, Record, View};

/// Lines that are read, the last ones: a second's work. Where they end the answer says so.
const MAX_LINES: usize = 200_000;

/// How long ago a call that runs may have begun, unless today began earlier.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// How much later than another line one may stand that was written before it.
const SLACK: SignedDuration = SignedDuration::from_mins(1);

/// Calls under way that are shown: more than anybody watches.
const MAX_RUNNING: usize = 50;

/// Callers that are told apart, and rows of them that are sent, those with the most calls.
const MAX_CALLERS: (usize, usize) = (500, 10);

/// Refusals that are told apart, and rows of them that are sent, the latest.
const MAX_REFUSALS: (usize, usize) = (200, 10);

/// Refused calls whose whole line is read; of further ones there is the count.
const MAX_REFUSED: usize = 2000;

/// The hours of a day; one of summer time's end has 25.
const HOURS: usize = 25;

/// The journal's part of what is shown.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Overview {
    /// When today began, or the last of the lines that were read, in milliseconds since 1970.
    since: i64,
    /// Whether there are earlier calls of today.
    is_cut: bool,
    /// Calls under way, the newest first.
    running: Vec<Row>,
    /// Calls of today that have ended.
    calls: usize,
    /// Those of them that did not do what they were asked.
    failed: usize,
    /// Those of these that were refused.
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

/// Who made calls today.
#[derive(Debug, Default, Serialize)]
struct Caller {
    name: String,
    program: String,
    calls: usize,
    failed: usize,
    /// When the last of them began.
    last: i64,
}

/// Calls of one tool that were refused for one reason.
#[derive(Debug, Serialize)]
struct Refusal {
    tool: String,
    count: usize,
    /// The last of them.
    id: String,
    time: i64,
    why: String,
    hint: Option<Hint>,
}

/// What is gathered while the lines are read, from the last one on.
struct Day {
    begun: Timestamp,
    shown: Overview,
    ended: HashSet<String>,
    callers: HashMap<(String, String), Caller>,
    refusals: HashMap<(String, String), Refusal>,
}

/// The overview of today, as this machine's time zone has it.
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

    /// Counts a refusal among those that one line would allow, or that have one text.
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
        callers.sort_unstable_by(|one, two| (two.calls, &one.name).cmp(&(one.calls, &two.name)));
        callers.truncate(MAX_CALLERS.1);
        let mut refusals: Vec<_> = self.refusals.into_values().collect();
        refusals.sort_unstable_by(|one, two| (two.time, &one.id).cmp(&(one.time, &two.id)));
        refusals.truncate(MAX_REFUSALS.1);
        Overview { callers, refusals, ..self.shown }
    }
}
