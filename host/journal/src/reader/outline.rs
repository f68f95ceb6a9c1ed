//! What a line says that decides whether it is wanted. Reading no more takes a third of the time.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::super::{Outcome, Program, Record};

/// A line in short.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Outline {
    /// That of the call.
    pub id: String,
    /// When the call began.
    pub time: Timestamp,
    /// What came of it.
    pub outcome: Outcome,
    /// Whether this is the call's only line.
    pub(super) merged: bool,
    /// The tool, by the name that models see.
    pub tool: String,
    /// How long it took, where it has ended.
    pub duration_ms: Option<f64>,
    /// The part of it in which the call waited for a person.
    pub waited_ms: Option<f64>,
    /// The caller that a server told from others.
    pub caller: Option<String>,
    /// What the call came through.
    pub via: Option<String>,
    /// The agents that the call came through.
    pub agent: Option<String>,
    /// The program it was called in.
    pub program: Program,
    /// The process of haft.
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

/// What a line is.
#[expect(clippy::large_enum_variant, reason = "one at a time, and nearly every line is an outline")]
pub(super) enum Line {
    Of(Outline),
    Blank,
    Broken,
}

impl Outline {
    /// How long the tool took, without the time in which a person was waited for, in milliseconds.
    pub fn ran_ms(&self) -> Option<f64> {
        self.duration_ms.map(|ms| (ms - self.waited_ms.unwrap_or_default()).max(0.0))
    }

    /// Whether this is the line of a call that begins.
    pub(super) fn is_begin(&self) -> bool {
        self.outcome == Outcome::Started
    }

    /// When the line was written, where it says so: lines of a file stand in this order. Each call has a line that does.
    /// That of its end alone does not: a machine that slept meanwhile has not counted the time.
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

/// All that a line says.
pub(super) fn record(line: &[u8]) -> Option<Record> {
    serde_json::from_slice(line).ok().filter(|record: &Record| !record.id.is_empty())
}
