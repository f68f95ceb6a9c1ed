//! Where calls wait for a person at a page: a directory of this user alone, which no tool may look into. A process that
//! asks puts a question there and waits for its answer; a page shows the questions and puts an answer beside one.
//! Processes need no connection to each other, and whatever of them ends leaves nothing that counts.
//!
//! - **Open:** while a browser shows a page, its process holds a lock on a file `open-…`. Nobody asks where there is none.
//! - **A question** is a file whose lock the asking process holds for as long as it waits. One without lock is nobody's.
//! - **An answer** names the SHA-256 of the question's file, which has the whole call and a name that is used once.
//!   It is good for the process that wrote these bytes, for that one call, and the first one counts.

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

/// Questions that wait at once: more than anybody answers within the time they wait.
pub(crate) const MAX_QUESTIONS: usize = 64;

/// Entries of a directory that are looked at: what ended processes leave is taken away as it is met.
const MAX_ENTRIES: usize = 1024;

/// The directory in which calls wait for a person.
#[derive(Clone, Debug)]
pub struct Desk {
    folder: PathBuf,
}

impl Desk {
    /// The one in `folder`, which no tool may look into. It is made by the first page.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Makes the directories, for this user alone.
    pub(crate) fn create(&self) -> io::Result<()> {
        for folder in [self.questions(), self.answers()] {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        }
        // One that was there before may have been made by hand.
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

/// What the names of files end with.
const ENDING: &str = ".json";

/// The names in a directory that `is_meant` says; none where it is not there.
fn names(folder: &Path, is_meant: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.take(MAX_ENTRIES).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter(|name| is_meant(name)).collect())
}

/// Whether a process holds the lock of a file; `None` where the file is gone.
fn is_held(path: &Path) -> io::Result<Option<bool>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    Ok(Some(flock(&file, FlockOperation::NonBlockingLockShared).is_err()))
}
