//! The journal: calls, decisions and outcomes as JSON lines, in a directory that no tool may read. It never blocks
//! work: a write error is reported once, and the call goes on.
//!
//! - **Two lines a call:** one before the tool runs, with everything known by then and the outcome `started`, and
//!   one at the end with the same `id` and all other fields, which replaces the first. So a call that crashes haft
//!   is on record too.
//! - **Written at once:** the first line of a call that may have effects is in the file before the call runs. In a
//!   server with many calls ([`Journal::gather`]), all other lines wait for 5 ms and are written together; a call
//!   that has ended by then has only its last line (`merged`). Nothing is lost if [`write_through`] is called
//!   before haft ends, or the journal is dropped; if haft is killed, the last 5 ms of calls without effects, and of
//!   ends, are lost. Nothing is synced to the disk: if the machine itself crashes, the last seconds may be missing.
//! - **Several processes** write concurrently: each group is one `write` of whole lines to the end of the file.
//! - **Bounded:** at `[journal] size` a file is rotated, and removed when there are `[journal] keep` of newer ones.

mod arguments;
mod file;
mod reader;
mod record;
mod writer;

use std::path::Path;
use std::sync::Arc;

pub use self::reader::{Bookmark, Calls, Followed, Found, Last, NewLine, Outline, View, read};
pub use self::record::{Granted, Outcome, Program, Record};
use self::writer::Writer;
pub use self::writer::write_through;
use crate::limit::KeptJournal;

/// The journal of calls. Clones write to the same file.
#[derive(Clone, Debug, Default)]
pub struct Journal(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    program: Program,
    writer: Arc<Writer>,
}

impl Journal {
    /// Returns a journal that records nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the journal in `directory` for the calls of `program`. Nothing is created or opened before the first
    /// call.
    pub fn new(directory: &Path, program: Program) -> Self {
        Self::with(directory, program, KeptJournal::default())
    }

    /// Returns such a journal with the limits of `table`.
    pub fn with(directory: &Path, program: Program, table: KeptJournal) -> Self {
        Self(Some(Arc::new(Inner { program, writer: Arc::new(Writer::new(directory, table)) })))
    }

    /// Writes lines that may wait in groups from now on, for many calls. [`write_through`] or dropping the journal
    /// writes the last group.
    pub fn gather(&self) {
        if let Some(inner) = &self.0 {
            inner.writer.gather();
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
        self.0.as_ref().is_none_or(|inner| inner.writer.is_settled())
    }

    /// Records the start of a call, before it returns or, if the line `may_wait`, within 5 ms.
    pub(crate) fn begin(&self, record: &Arc<Record>, may_wait: bool) {
        if let Some(inner) = &self.0 {
            inner.writer.begin(record, may_wait);
        }
    }

    /// Records the end of a call, with the fields that `ended` adds.
    pub(crate) fn end(&self, begun: Arc<Record>, ended: impl FnOnce(Record) -> Record) {
        if let Some(inner) = &self.0 {
            inner.writer.end(begun, ended);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.writer.stop();
    }
}
