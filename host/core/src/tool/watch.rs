//! The record of one call from its beginning to its end: events, journal lines, log. Redacts secrets in all of them
//! and in the answer to the caller.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::session::Session;
use super::{CallNotes, Keep, Notes, ToolError, clip};
use crate::call::{ToolCall, ToolResult};
use crate::event::{Event, Events};
use crate::journal::{Outcome, Record};
use crate::secret::{RedactingEvents, Redactor};

/// Maximum number of characters of an error: the default limit of an MCP server's answer.
const MAX_ERROR: usize = 100_000;

/// A running call. A drop before its end is journalled as a cancellation: the caller no longer waits.
pub(super) struct Watch<'a> {
    session: &'a Session,
    /// The redacted call.
    call: Cow<'a, ToolCall>,
    redacting: RedactingEvents,
    notes: Notes,
    /// The first line in the journal; `None` where no journal is kept, and once the end is noted.
    record: Option<Arc<Record>>,
    begun: Instant,
}

/// The end of a call.
pub(super) enum Ended {
    /// The tool answered; the answer may contain the failure of a program that the tool ran.
    Answered(ToolResult),
    /// The tool gave no answer: the arguments are wrong, it failed, or it was stopped.
    Failed(ToolError),
    /// The tool did not run: a rule or the user refused the call. Holds the answer.
    Refused(ToolResult),
    /// The tool does not exist. Contains the answer's text.
    UnknownTool(String),
}

impl<'a> Watch<'a> {
    /// Records the begin of `call` as an event and in the journal; with a short delay if the line `may_wait`.
    /// `describe` adds the known fields of the tool to the journal line; it is called only if there is a journal.
    pub(super) fn begin(
        call: &'a ToolCall,
        session: &'a Session,
        may_wait: bool,
        describe: impl FnOnce(Record, &Redactor) -> Record,
    ) -> Self {
        let Session { events, redactor, journal, .. } = session;
        let (begun, call) = (Instant::now(), redactor.call(call));
        let notes = match &session.notes {
            wanted if wanted.is_kept() => wanted.clone(),
            _ if journal.is_kept() || session.widening.is_possible() => Notes::recording(),
            _ => Notes::default(),
        };
        let first_line = || Record {
            agent: session.lineage.path(),
            parent: session.lineage.parent().map(str::to_owned),
            caller: session.caller.as_deref().map(|caller| redactor.redact(caller).into_owned()),
            via: session.via.as_deref().map(|via| redactor.redact(via).into_owned()),
            ..Record::begun(journal.program(), &call)
        };
        let record = journal.is_kept().then(|| Arc::new(describe(first_line(), redactor)));
        if let Some(record) = &record {
            journal.begin(record, may_wait);
        }
        events.emit_call(|| Event::Started(ToolCall::clone(&call)));
        Self { session, call, redacting: RedactingEvents::new(redactor, events), notes, record, begun }
    }

    /// Reports that the tool starts to run.
    pub(super) fn runs(&self) {
        self.session.events.emit_call(|| Event::Running { call: self.call.id.clone() });
    }

    /// Returns the receiver of the tool's events.
    pub(super) fn events(&self) -> &Events {
        self.redacting.events()
    }

    /// Returns the journal's id of the call.
    pub(super) fn record(&self) -> Option<&str> {
        self.record.as_ref().map(|record| record.id.as_str())
    }

    /// Returns the notes of the tool for the journal.
    pub(super) fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Reports and records the end. Returns the redacted answer for the caller.
    pub(super) fn end(mut self, ended: Ended) -> ToolResult {
        let (result, outcome) = match ended {
            Ended::Answered(result) => (result, None),
            Ended::Failed(error) => {
                let is_callers = matches!(error, ToolError::InvalidArguments(_));
                let outcome = is_callers.then_some(Outcome::InvalidArguments);
                (ToolResult::error(bounded(&error.to_string())), outcome)
            }
            Ended::Refused(refusal) => {
                let content = bounded(&refusal.content);
                (ToolResult { content, ..refusal }, Some(Outcome::Refused))
            }
            Ended::UnknownTool(why) => (ToolResult::error(bounded(&why)), Some(Outcome::UnknownTool)),
        };
        let duration = self.begun.elapsed();
        let outcome = outcome.unwrap_or_else(|| self.outcome(&result));
        let result = self.session.redactor.result(result);
        self.redacting.finish(&self.call.id);
        self.record_end(outcome, Some(&result));
        tracing::debug!(tool = self.call.tool, outcome = outcome.name(), elapsed = ?duration, "call answered");
        self.session.events.emit_call(|| Event::Completed {
            call: ToolCall::clone(&self.call),
            result: result.clone(),
            duration,
        });
        result
    }

    /// Returns the outcome of a call that ran. A cancellation overrides the answer after it.
    fn outcome(&self, result: &ToolResult) -> Outcome {
        match self.notes.notes() {
            _ if !result.is_error => Outcome::Ok,
            _ if self.session.cancel.is_cancelled() => Outcome::Cancelled,
            CallNotes { timed_out: true, .. } => Outcome::Timeout,
            CallNotes { refused: true, .. } => Outcome::Refused,
            _ => Outcome::Error,
        }
    }

    /// Records the end in the journal, once.
    fn record_end(&mut self, outcome: Outcome, result: Option<&ToolResult>) {
        let Some(record) = self.record.take() else { return };
        let notes = self.notes.notes();
        let clean = |text: String| self.session.redactor.redact_owned(text);
        let ended = |record| Record {
            outcome,
            duration_ms: Some(milliseconds(self.begun.elapsed())),
            // A lookup of an earlier approval takes no time, and no user was waited for.
            waited_ms: Some(milliseconds(notes.waited)).filter(|waited| *waited >= 1.0),
            peak_memory: notes.peak_memory,
            decisions: notes.decisions.into_iter().map(clean).collect(),
            ..record
        };
        self.session.journal.end(record, |record| match result {
            Some(ToolResult { content, is_error, .. }) => {
                ended(record).answered(&clip(content, Record::MAX_ANSWER, Keep::Ends), *is_error)
            }
            None => ended(record),
        });
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.record_end(Outcome::Cancelled, None);
    }
}

/// Returns milliseconds, rounded to microseconds.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Returns an error of bounded length. It may repeat text of a caller or a tool.
fn bounded(error: &str) -> String {
    clip(error, MAX_ERROR, Keep::Ends)
}
