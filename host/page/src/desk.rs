//! The directory in which calls wait for a person at a page: accessible to this user alone, and to no tool. A
//! process writes a question there and waits for its answer; a page shows the questions and writes an answer beside
//! one. Processes need no connection to each other, and files left by an ended process have no effect.
//!
//! - **Open:** while a browser shows a page, its process holds a lock on a file `open-…`. Without such a lock, no
//!   process asks.
//! - **A question** is a file that the asking process keeps locked as long as it waits. An unlocked one is void.
//! - **An answer** contains the SHA-256 of the question's file, which holds the whole call and a unique name. It is
//!   valid for the process that wrote these bytes and for that one call, and the first answer counts.

mod ask;
mod open;
mod question;

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};

pub use self::ask::PageApprover;
pub(crate) use self::open::{Presence, Shown};
pub use self::question::Origin;
pub(crate) use self::question::{Answer, Waiting};
use self::question::{Given, MAX_FILE, digest};

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

/// A question, and the digest that its answer must contain.
pub(crate) struct Found {
    pub(crate) waiting: Waiting,
    pub(crate) digest: String,
}

impl Desk {
    /// Returns the waiting calls, oldest first. Removes void questions.
    pub(crate) fn waiting(&self) -> io::Result<Vec<Found>> {
        let names = names(&self.questions(), |name| name.ends_with(ENDING))?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(ENDING)).take(MAX_QUESTIONS);
        let mut found: Vec<_> = ids.filter_map(|id| self.find(id).transpose()).collect::<io::Result<_>>()?;
        found.sort_unstable_by(|first, second| {
            (first.waiting.time, &first.waiting.id).cmp(&(second.waiting.time, &second.waiting.id))
        });
        Ok(found)
    }

    /// Answers the question `id` if it still waits, has this digest and is unanswered; returns whether it did.
    pub(crate) fn give(&self, id: &str, digest: &str, answer: Answer) -> io::Result<bool> {
        let is_valid = |found: &Found| {
            let is_offered = match answer {
                Answer::Session => found.waiting.for_session,
                Answer::Write => found.waiting.written_by.is_some(),
                Answer::Once | Answer::Refuse => true,
            };
            found.digest == digest && is_offered
        };
        if self.find(id)?.is_none_or(|found| !is_valid(&found)) {
            return Ok(false);
        }
        let mut file = tempfile::NamedTempFile::new_in(self.answers())?;
        file.write_all(&serde_json::to_vec(&Given { digest: digest.to_owned(), answer })?)?;
        match file.persist_noclobber(self.answer(id)) {
            Ok(_) => Ok(true),
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error.error),
        }
    }

    /// Returns the question `id` if it waits for an answer.
    fn find(&self, id: &str) -> io::Result<Option<Found>> {
        // The id becomes a part of a path.
        if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let path = self.question(id);
        let Ok(file) = File::open(&path) else { return Ok(None) };
        if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(self.answer(id));
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut bytes)?;
        let waiting = serde_json::from_slice::<Waiting>(&bytes).ok();
        let waiting = waiting.filter(|waiting| waiting.id == id && waiting.until > Timestamp::now());
        // The asking process removes the question, then its answer: a question that is gone now was answered and no
        // longer waits.
        let waiting = waiting.filter(|_| !self.answer(id).exists() && path.exists());
        Ok(waiting.map(|waiting| Found { waiting, digest: digest(&bytes) }))
    }
}
