//! The journal: what was called, by whose leave, and what came of it, as JSON lines in a directory
//! that no tool may look into. It refuses to be in the way: what cannot be written is said once and
//! the call goes on.
//!
//! - **Two lines a call:** one before the tool runs, with everything known by then and the outcome
//!   `started`, and one at the end with the same `id` and all the rest, which replaces the first. So a
//!   call that takes haft down with it is on record too.
//! - **Written at once:** the first line of a call that may have effects is on file before it runs. Where
//!   many calls come ([`Journal::gather`]) all other lines wait for 5 ms and are written together; a call that is
//!   over by then has only its last line (`merged`). Nothing is lost when haft ends and [`write_through`] was called,
//!   or the journal dropped; when haft is killed, what came in the last 5 ms of calls without effects, and of ends.
//!   Nothing is synced to disk: when the machine itself goes down, the last seconds may be missing.
//! - **Several processes** write at the same time: each group is one `write` of whole lines to the end of the file.
//! - **Bounded:** at `[journal] size` a file is put aside, and goes when there are `[journal] keep` of newer ones.

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

/// Where calls are noted down. Clones write to the same file.
#[derive(Clone, Debug, Default)]
pub struct Journal(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    program: Program,
    writer: Arc<Writer>,
}

impl Journal {
    /// A journal that notes nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// The journal in `directory`, of the calls of `program`. Nothing is made or opened before the
    /// first call.
    pub fn new(directory: &Path, program: Program) -> Self {
        Self::with(directory, program, KeptJournal::default())
    }

    /// The same, of which is kept what `table` says.
    pub fn with(directory: &Path, program: Program, table: KeptJournal) -> Self {
        Self(Some(Arc::new(Inner { program, writer: Arc::new(Writer::new(directory, table)) })))
    }

    /// Has lines that may wait written in groups from now on, where many calls are to come. What waits at the end of
    /// the process is written by [`write_through`], or when the journal is dropped.
    pub fn gather(&self) {
        if let Some(inner) = &self.0 {
            inner.writer.gather();
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
        self.0.as_ref().is_none_or(|inner| inner.writer.is_settled())
    }

    /// Notes that a call begins, before it returns or, where the line `may_wait`, within 5 ms.
    pub(crate) fn begin(&self, record: &Arc<Record>, may_wait: bool) {
        if let Some(inner) = &self.0 {
            inner.writer.begin(record, may_wait);
        }
    }

    /// Notes that a call has ended, and what `ended` adds to its record.
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
