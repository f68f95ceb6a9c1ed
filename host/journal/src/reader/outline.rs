//! The fields of a line that select it. Parsing only these takes a third of the time of parsing the line.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::super::{Outcome, Program, Record};

/// The outline of a line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Outline {
    /// The id of the call.
    pub id: String,
    /// The start of the call.
    pub time: Timestamp,
    /// The outcome of the call.
    pub outcome: Outcome,
    /// Whether this is the only line of the call.
    pub(super) merged: bool,
    /// The tool, by the name that models see.
    pub tool: String,
    /// The duration in milliseconds, if the call has ended.
    pub duration_ms: Option<f64>,
    /// The part of the duration in which the call waited for a user, in milliseconds.
    pub waited_ms: Option<f64>,
    /// The caller, in a server with several callers.
    pub caller: Option<String>,
    /// The client or command of the call.
    pub via: Option<String>,
    /// The agents on the way to the call.
    pub agent: Option<String>,
    /// The program of the call.
    pub program: Program,
    /// The process id of haft.
    pub pid: u32,
}

impl From<&Record> for Outline {
    fn from(record: &Record) -> Self {
        Self {
            id: record.id.clone(),
            time: record.time,
            outcome: record.outcome,
            merged: record.merged,
            tool: record.tool.clone(),
            duration_ms: record.duration_ms,
            waited_ms: record.waited_ms,
            caller: record.caller.clone(),
            via: record.via.clone(),
            agent: record.agent.clone(),
            program: record.program.clone(),
            pid: record.pid,
        }
    }
}

#[expect(clippy::large_enum_variant, reason = "one at a time, and nearly every line is an outline")]
pub(super) enum Line {
    Of(Outline),
    Blank,
    Broken,
}

impl Outline {
    /// Returns the duration of the tool without the time waiting for a person, in milliseconds.
    pub fn ran_ms(&self) -> Option<f64> {
        self.duration_ms.map(|ms| (ms - self.waited_ms.unwrap_or_default()).max(0.0))
    }

    /// Returns whether this is the first line of a call.
    pub(super) fn is_begin(&self) -> bool {
        self.outcome == Outcome::Started
    }

    /// Returns when the line was written, if stated: the lines of a file are in this order. Every call has a line
    /// with a time; a separate last line has none, because a suspended machine does not count the time.
    pub fn written(&self) -> Option<Timestamp> {
        let says = (self.is_begin() || self.merged) && self.time > Timestamp::UNIX_EPOCH;
        let took = SignedDuration::try_from_secs_f64(self.duration_ms.unwrap_or_default() / 1e3);
        let written = took.ok().and_then(|took| self.time.checked_add(took).ok()).unwrap_or(self.time);
        says.then_some(written)
    }
}

pub(super) fn outline(line: &[u8]) -> Line {
    if line.trim_ascii().is_empty() {
        return Line::Blank;
    }
    match serde_json::from_slice::<Outline>(line) {
        Ok(outline) if !outline.id.is_empty() => Line::Of(outline),
        _ => Line::Broken,
    }
}

/// Parses a complete record.
pub(super) fn record(line: &[u8]) -> Option<Record> {
    serde_json::from_slice(line).ok().filter(|record: &Record| !record.id.is_empty())
}
