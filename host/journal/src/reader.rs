//! Reads the journal: every call once. Invalid lines are counted and skipped; nothing is repaired or written.
//!
//! A journal may have gigabytes. The last calls are therefore read from the end (`backward`), calls since a time
//! from their position (`search`), and only the [`Outline`] of a line is parsed before the line is selected. Memory
//! contains one line, and the calls that have started and not ended.

mod calls;
mod follow;
mod outline;
mod search;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

pub use self::calls::Calls;
pub use self::follow::{Bookmark, Followed, NewLine};
pub use self::outline::Outline;
pub use self::search::Found;
use super::Record;
use super::file::{CURRENT, aside};

/// The maximum delay between the time of a line and its position: a process may have been held up, or a clock set
/// back a little.
const SLACK: SignedDuration = SignedDuration::from_mins(1);

/// Returns the earliest time of a line after which calls since `since` may follow.
fn earliest(since: Timestamp) -> Timestamp {
    since.checked_sub(SLACK).unwrap_or(Timestamp::MIN)
}

/// The journal at the time of opening.
#[derive(Debug)]
pub struct View {
    directory: PathBuf,
    /// The rotated files, oldest first.
    aside: Vec<PathBuf>,
    current: Option<(File, u64)>,
}

/// The last calls, newest last.
#[derive(Debug, Default)]
pub struct Last {
    /// The calls that have ended, in the order of their ends, then the others.
    pub records: Vec<Record>,
    /// Whether there may be earlier calls.
    pub is_cut: bool,
    /// The number of unreadable lines.
    pub broken: usize,
}

/// Reads all calls of the journal in `directory`.
pub fn read(directory: &Path) -> io::Result<Calls> {
    View::open(directory)?.calls(None, |_| true)
}

impl View {
    /// Opens the journal in `directory`. A journal that does not exist has no calls.
    pub fn open(directory: &Path) -> io::Result<Self> {
        // Opened before the others are listed, so that a file rotated meanwhile is recognised.
        let current = open(&directory.join(CURRENT))?;
        let current = current.map(|file| file.metadata().map(|metadata| (file, metadata))).transpose()?;
        let identity = current.as_ref().map(|(_, metadata)| (metadata.dev(), metadata.ino()));
        let mut aside = match aside(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            files => files?,
        };
        aside.retain(|path| {
            let other = std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
            other.is_some() && other != identity
        });
        let current = current.map(|(file, metadata)| (file, metadata.len()));
        Ok(Self { directory: directory.to_owned(), aside, current })
    }

    /// Returns the calls that `is_wanted` accepts, since `since` if given: first those that have ended, in the
    /// order of their ends.
    pub fn calls(
        &self,
        since: Option<Timestamp>,
        is_wanted: impl Fn(&Outline) -> bool + 'static,
    ) -> io::Result<Calls> {
        let (first, offset) = match since {
            Some(since) => search::position_of(self, since)?,
            None => (0, 0),
        };
        Calls::new(self, (first, offset), since, Box::new(is_wanted))
    }

    /// Returns the lines that are written from now on.
    pub fn follow(&self) -> io::Result<Followed> {
        let current =
            self.current.as_ref().map(|(file, length)| Ok::<_, io::Error>((file.try_clone()?, *length)));
        Followed::new(&self.directory, current.transpose()?, self.aside.last().cloned())
    }

    /// Returns the lines after `bookmark`; all lines without a bookmark, or if its file was removed.
    pub fn follow_after(&self, bookmark: Option<Bookmark>) -> io::Result<Followed> {
        Followed::after(&self.directory, bookmark)
    }

    /// Returns the number of files.
    fn count(&self) -> usize {
        self.aside.len() + usize::from(self.current.is_some())
    }

    /// Returns a file and the length to read; index 0 is the oldest. `None` if the file was removed, which may
    /// happen to a rotated file at any time.
    fn file(&self, index: usize) -> io::Result<Option<(File, u64)>> {
        if let Some(path) = self.aside.get(index) {
            return open(path)?
                .map(|file| file.metadata().map(|metadata| (file, metadata.len())))
                .transpose();
        }
        let current = self.current.as_ref().map(|(file, length)| Ok((file.try_clone()?, *length)));
        current.transpose()
    }
}

/// Opens a file if it exists.
fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("cannot read the journal `{}`: {error}", path.display()),
        )),
        file => file.map(Some),
    }
}

#[cfg(test)]
mod tests;
