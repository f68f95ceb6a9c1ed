//! What tools know of the journal: the record of a call, and where its lines go. The crate `haft-journal` writes and reads
//! the files.

mod arguments;
mod record;

use std::fmt;
use std::sync::Arc;

pub use self::record::{Granted, Outcome, Program, Record};

/// Bytes of a line; many times those of the longest record. What is longer is none.
pub const MAX_LINE: usize = 1 << 20;

/// Where the lines of calls go.
pub trait Lines: fmt::Debug + Send + Sync {
    /// Has lines that may wait written in groups from now on, where many calls are to come.
    fn gather(&self);

    /// Whether the next lines can be written without opening or moving a file, and without starting a thread.
    fn is_settled(&self) -> bool;

    /// Notes that a call begins, before it returns or, where the line `may_wait`, a moment later.
    fn begin(&self, record: &Arc<Record>, may_wait: bool);

    /// Takes back the first line of the call `id` where it still waits; whether it did.
    fn forget(&self, id: &str) -> bool;

    /// Notes that a call has ended.
    fn end(&self, record: &Record);
}

/// Where calls are noted down. Clones write to the same file.
#[derive(Clone, Debug, Default)]
pub struct Journal(Option<Arc<Inner<dyn Lines>>>);

#[derive(Debug)]
struct Inner<L: ?Sized> {
    program: Program,
    lines: L,
}

impl Journal {
    /// A journal that notes nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// The journal of the calls of `program`, whose lines go to `lines`.
    pub fn of(program: Program, lines: impl Lines + 'static) -> Self {
        Self(Some(Arc::new(Inner { program, lines })))
    }

    /// Has lines that may wait written in groups from now on, where many calls are to come. What waits at the end of
    /// the process is written by `haft_journal::write_through`, or when the journal is dropped.
    pub fn gather(&self) {
        if let Some(inner) = &self.0 {
            inner.lines.gather();
        }
    }

    /// Whether anything is noted.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// The program whose calls these are.
    pub fn program(&self) -> Program {
        self.0.as_ref().map(|inner| inner.program.clone()).unwrap_or_default()
    }

    /// Whether the next lines can be written without opening or moving a file, and without starting a thread.
    pub fn is_settled(&self) -> bool {
        self.0.as_ref().is_none_or(|inner| inner.lines.is_settled())
    }

    /// Notes that a call begins, before it returns or, where the line `may_wait`, a moment later.
    pub(crate) fn begin(&self, record: &Arc<Record>, may_wait: bool) {
        if let Some(inner) = &self.0 {
            inner.lines.begin(record, may_wait);
        }
    }

    /// Notes that a call has ended, and what `ended` adds to its record.
    pub(crate) fn end(&self, begun: Arc<Record>, ended: impl FnOnce(Record) -> Record) {
        if let Some(inner) = &self.0 {
            let merged = inner.lines.forget(&begun.id);
            // No other owner is left, but for a moment.
            inner.lines.end(&Record { merged, ..ended(Arc::unwrap_or_clone(begun)) });
        }
    }
}
