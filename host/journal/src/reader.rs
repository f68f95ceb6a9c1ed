//! Reads the journal back: every call once. What is no line of the journal is counted and passed over; nothing is
//! repaired and nothing written.
//!
//! A journal may have gigabytes. So the last calls are read from the end (`backward`), those since a time from where
//! they begin (`position`), and of a line no more than its [`Outline`] before it is known to be wanted. What is held is
//! one line, and what is known of calls that have begun and not ended.

mod backward;
mod calls;
mod follow;
mod outline;
mod position;
mod search;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

pub use self::calls::Calls;
pub use self::follow::{Bookmark, Followed, NewLine};
pub use self::outline::Outline;
pub use self::search::Found;
use super::Record;
use super::file::{CURRENT, aside};

/// How much later than another line one may stand that was written before it, by a process that was held up, or by a
/// clock that was set back a little.
const SLACK: SignedDuration = SignedDuration::from_mins(1);

/// Before which a line was written that no line of a call since then follows.
fn earliest(since: Timestamp) -> Timestamp {
    since.checked_sub(SLACK).unwrap_or(Timestamp::MIN)
}

/// The journal as it was when it was opened.
#[derive(Debug)]
pub struct View {
    directory: PathBuf,
    /// The files that were put aside, the oldest first.
    aside: Vec<PathBuf>,
    /// The file that was written to, and how long it was.
    current: Option<(File, u64)>,
}

/// The last calls that were asked for, the newest last.
#[derive(Debug, Default)]
pub struct Last {
    /// Those that have ended, in the order of their ends, and then the others.
    pub records: Vec<Record>,
    /// Whether there may be earlier ones.
    pub is_cut: bool,
    /// How many lines could not be read.
    pub broken: usize,
}

/// All calls of the journal in `directory`.
pub fn read(directory: &Path) -> io::Result<Calls> {
    View::open(directory)?.calls(None, |_| true)
}

impl View {
    /// The journal in `directory`. One that does not exist yet has no calls.
    pub fn open(directory: &Path) -> io::Result<Self> {
        // Before the others are listed: a file that is put aside in between is known then.
        let current = open(&directory.join(CURRENT))?;
        let current = current.map(|file| file.metadata().map(|metadata| (file, metadata))).transpose()?;
        let own = current.as_ref().map(|(_, metadata)| (metadata.dev(), metadata.ino()));
        let mut aside = match aside(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            files => files?,
        };
        aside.retain(|path| {
            let other = std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
            other.is_some() && other != own
        });
        let current = current.map(|(file, metadata)| (file, metadata.len()));
        Ok(Self { directory: directory.to_owned(), aside, current })
    }

    /// The calls that `is_wanted` says, or those of them that began at `since` or later: first those that have ended,
    /// in the order of their ends.
    pub fn calls(
        &self,
        since: Option<Timestamp>,
        is_wanted: impl Fn(&Outline) -> bool + 'static,
    ) -> io::Result<Calls> {
        let (first, offset) = match since {
            Some(since) => position::of(self, since)?,
            None => (0, 0),
        };
        Calls::new(self, (first, offset), since, Box::new(is_wanted))
    }

    /// The last `count` calls that `is_wanted` says, read from the end.
    pub fn last(
        &self,
        count: usize,
        since: Option<Timestamp>,
        is_wanted: impl Fn(&Outline) -> bool,
    ) -> io::Result<Last> {
        backward::last(self, count, since, &is_wanted)
    }

    /// Shows `visit` the lines from the last to the first, in short and with a way to read all of one, until it has seen
    /// enough. A call has two lines, or one.
    pub fn backward(
        &self,
        visit: impl FnMut(&Outline, &dyn Fn() -> Option<Record>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        backward::visit(self, visit)
    }

    /// The call whose id is `id`, or begins with it, and how many of the lines that were looked at could not be read.
    pub fn find(&self, id: &str) -> io::Result<(Found, usize)> {
        search::find(self, id)
    }

    /// The calls that an agent made to answer `parent`, in order, of `count` at most.
    pub fn children(&self, parent: &Record, count: usize) -> io::Result<Vec<Record>> {
        search::children(self, parent, count)
    }

    /// What is written from now on.
    pub fn follow(&self) -> io::Result<Followed> {
        let current =
            self.current.as_ref().map(|(file, length)| Ok::<_, io::Error>((file.try_clone()?, *length)));
        Followed::new(&self.directory, current.transpose()?, self.aside.last().cloned())
    }

    /// What is written after `bookmark`; all that is kept where there is none, or its file is gone.
    pub fn follow_after(&self, bookmark: Option<Bookmark>) -> io::Result<Followed> {
        Followed::after(&self.directory, bookmark)
    }

    /// How many files there are.
    fn count(&self) -> usize {
        self.aside.len() + usize::from(self.current.is_some())
    }

    /// A file, and how much of it is to be read; the oldest is the first. `None` for one that is gone: one that was put
    /// aside may be removed at any time.
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

/// The file, if it is there.
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
