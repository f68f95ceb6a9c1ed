//! The journal: what was called, by whose leave, and what came of it, as JSON lines in a directory
//! that no tool may look into. It refuses to be in the way: what cannot be written is said once and
//! the call goes on.
//!
//! - **Two lines a call:** one before the tool runs, with everything known by then and the outcome
//!   `started`, and one at the end with the same `id` and all the rest, which replaces the first. So a
//!   call that takes haft down with it is on record too.
//! - **Written at once:** each line is one `write` to the end of the file, so nothing is lost when haft
//!   ends, however it ends, and several processes can write at the same time. Nothing is synced to
//!   disk: when the machine itself goes down, the last seconds may be missing.
//! - **Bounded:** at 8 MiB a file is put aside, and the oldest of eight goes.

mod arguments;
mod file;
mod reader;
mod record;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::file::File;
pub use self::reader::{Followed, Lines, read};
pub use self::record::{Granted, Outcome, Program, Record};
use crate::sync::Lock;

/// Where calls are noted down. Clones write to the same file.
#[derive(Clone, Debug, Default)]
pub struct Journal(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    program: Program,
    directory: PathBuf,
    file: Lock<File>,
    /// Whether it was said that the journal cannot be written.
    warned: AtomicBool,
}

impl Journal {
    /// A journal that notes nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// The journal in `directory`, of the calls of `program`. Nothing is made or opened before the
    /// first call.
    pub fn new(directory: &Path, program: Program) -> Self {
        let (directory, file) = (directory.to_owned(), Lock::new(File::new(directory)));
        Self(Some(Arc::new(Inner { program, directory, file, warned: AtomicBool::new(false) })))
    }

    /// Whether anything is noted.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// The program whose calls these are.
    pub fn program(&self) -> Program {
        self.0.as_ref().map(|inner| inner.program.clone()).unwrap_or_default()
    }

    /// Whether the next lines can be written without opening or moving a file.
    pub fn is_settled(&self) -> bool {
        let is_settled = |inner: &Arc<Inner>| inner.file.lock().is_settled();
        self.0.as_ref().is_none_or(is_settled)
    }

    /// Notes `record` down.
    pub(crate) fn note(&self, record: &Record) {
        let Some(inner) = &self.0 else { return };
        let written = record
            .line()
            .map_err(std::io::Error::from)
            .and_then(|line| inner.file.lock().append(line.as_bytes()));
        if let Err(error) = written
            && !inner.warned.swap(true, Ordering::Relaxed)
        {
            let directory = inner.directory.display();
            tracing::warn!("calls are not noted in the journal `{directory}`: {error}");
        }
    }
}
