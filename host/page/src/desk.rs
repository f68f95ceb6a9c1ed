//! The directory in which calls wait for a person at a page: accessible to this user alone, and to no tool. A
//! process writes a question there and waits for its answer; a page shows the questions and writes an answer beside
//! one. Processes need no connection to each other, and files left by an ended process have no effect.
//!
//! - **Open:** while a browser shows a page, its process holds a lock on a file `open-…`. Without such a lock, no
//!   process asks.
//! - **A question** is a file that the asking process keeps locked as long as it waits. An unlocked one is void.
//! - **An answer** contains the SHA-256 of the question's file, which holds the whole call and a unique name. It is
//!   valid for the process that wrote these bytes and for that one call, and the first answer counts.

mod answer;
mod ask;
mod open;
mod question;

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

pub use self::ask::PageApprover;
pub(crate) use self::open::{Presence, Shown};
pub use self::question::Origin;
pub(crate) use self::question::{Answer, Waiting};

/// The maximum number of waiting questions: more than a person answers before they expire.
pub(crate) const MAX_QUESTIONS: usize = 64;

/// The maximum number of entries read from a directory: files of ended processes are removed when found.
const MAX_ENTRIES: usize = 1024;

/// The directory in which calls wait for a person.
#[derive(Clone, Debug)]
pub struct Desk {
    folder: PathBuf,
}

impl Desk {
    /// Returns the desk in `folder`, which no tool may read. The first page creates it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Creates the directories, for this user alone.
    pub(crate) fn create(&self) -> io::Result<()> {
        for folder in [self.questions(), self.answers()] {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        }
        // An existing directory may have been created by hand.
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700))
    }

    fn questions(&self) -> PathBuf {
        self.folder.join("questions")
    }

    fn answers(&self) -> PathBuf {
        self.folder.join("answers")
    }

    fn question(&self, id: &str) -> PathBuf {
        self.questions().join(format!("{id}{ENDING}"))
    }

    fn answer(&self, id: &str) -> PathBuf {
        self.answers().join(format!("{id}{ENDING}"))
    }
}

/// The extension of the files.
const ENDING: &str = ".json";

/// Returns the names in a directory that `is_meant` accepts; none if it does not exist.
fn names(folder: &Path, is_meant: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.take(MAX_ENTRIES).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter(|name| is_meant(name)).collect())
}

/// Whether a process holds the lock of a file; `None` if the file does not exist.
fn is_held(path: &Path) -> io::Result<Option<bool>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    Ok(Some(flock(&file, FlockOperation::NonBlockingLockShared).is_err()))
}
