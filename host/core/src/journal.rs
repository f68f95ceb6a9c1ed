//! The record of a call, and the destination of its lines. The crate `haft-journal` writes and reads the files.

mod arguments;
mod record;

use std::fmt;
use std::sync::Arc;

pub use self::record::{Granted, Outcome, Program, Record};

/// The maximum size of a line in bytes: many times that of the longest record. A longer line is invalid.
pub const MAX_LINE: usize = 1 << 20;

/// The destination of the lines of calls.
pub trait Lines: fmt::Debug + Send + Sync {
    /// Writes lines that may wait in groups from now on, for many calls.
    fn gather(&self);

    /// Whether the next lines can be written without opening or moving a file, and without starting a thread.
    fn is_settled(&self) -> bool;

    /// Records the start of a call, before it returns or, if the line `may_wait`, within 5 ms.
    fn begin(&self, record: &Arc<Record>, may_wait: bool);

    /// Drops the first line of the call `id` if it still waits. Returns whether it did.
    fn forget(&self, id: &str) -> bool;

    /// Records the end of a call.
    fn end(&self, record: &Record);
}

/// The journal of calls. Clones write to the same file.
#[derive(Clone, Debug, Default)]
pub struct Journal(Option<Arc<Inner<dyn Lines>>>);

#[derive(Debug)]
struct Inner<L: ?Sized> {
    program: Program,
    lines: L,
}

impl Journal {
    /// Returns a journal that records nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the journal of the calls of `program`, which writes to `lines`.
    pub fn of(program: Program, lines: impl Lines + 'static) -> Self {
        Self(Some(Arc::new(Inner { program, lines })))
    }

    /// Writes lines that may wait in groups from now on, for many calls. `haft_journal::write_through` or dropping the
    /// journal writes the last group.
    pub fn gather(&self) {
        if let Some(inner) = &self.0 {
            inner.lines.gather();
        }
    }

    /// Whether calls are recorded.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the program of the calls.
    pub fn program(&self) -> Program {
        self.0.as_ref().map(|inner| inner.program.clone()).unwrap_or_default()
    }

    /// Whether the next lines can be written without opening or moving a file, and without starting a thread.
    pub fn is_settled(&self) -> bool {
        self.0.as_ref().is_none_or(|inner| inner.lines.is_settled())
    }

    /// Records the start of a call, before it returns or, if the line `may_wait`, within 5 ms.
    pub(crate) fn begin(&self, record: &Arc<Record>, may_wait: bool) {
        if let Some(inner) = &self.0 {
            inner.lines.begin(record, may_wait);
        }
    }

    /// Records the end of a call, with the fields that `ended` adds.
    pub(crate) fn end(&self, begun: Arc<Record>, ended: impl FnOnce(Record) -> Record) {
        if let Some(inner) = &self.0 {
            let merged = inner.lines.forget(&begun.id);
            // No other owner is left, but for a moment.
            inner.lines.end(&Record { merged, ..ended(Arc::unwrap_or_clone(begun)) });
        }
    }
}
