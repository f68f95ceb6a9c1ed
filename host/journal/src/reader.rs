//! Reads the journal: every call once. Invalid lines are counted and skipped; nothing is repaired or written.
//!
//! A journal may have gigabytes. The last calls are therefore read from the end (`backward`), calls since a time
//! from their position (`search`), and only the [`Outline`] of a line is parsed before the line is selected. Memory
//! contains one line, and the calls that have started and not ended.

mod calls;
mod follow;
mod search;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

pub use self::calls::Calls;
pub use self::follow::{Bookmark, Followed, NewLine};
pub use self::search::Found;
use super::file::{CURRENT, aside};
use super::{Outcome, Program, Record};

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
        let mut aside = aside(directory)?;
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
        let start = since.map_or(Ok((0, 0)), |since| search::position_of(self, since))?;
        let view =
            Self { directory: self.directory.clone(), aside: self.aside.clone(), current: self.current()? };
        Ok(Calls::new(view, start, since, Box::new(is_wanted)))
    }

    /// Returns the lines that are written from now on.
    pub fn follow(&self) -> io::Result<Followed> {
        Followed::new(&self.directory, self.current()?, self.aside.last().cloned())
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
            let file = open(path)?;
            return file.map(|file| file.metadata().map(|metadata| (file, metadata.len()))).transpose();
        }
        self.current()
    }

    fn current(&self) -> io::Result<Option<(File, u64)>> {
        let current = self.current.as_ref();
        current.map(|(file, length)| Ok((file.try_clone()?, *length))).transpose()
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

// The fields of a line that select it. Parsing only these takes a third of the time of parsing the line.

/// The outline of a line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Outline {
    /// The id of the call.
    pub id: String,
    /// The start of the call.
    pub time: Timestamp,
    /// The outcome of the call.
    pub outcome: Outcome,
    /// Whether this is the only line of the call.
    merged: bool,
    /// The tool, by the name that models see.
    pub tool: String,
    /// The duration in milliseconds, if the call has ended.
    pub duration_ms: Option<f64>,
    /// The part of the duration in which the call waited for a user, in milliseconds.
    pub waited_ms: Option<f64>,
    /// The caller, in a server with several callers.
    pub caller: Option<String>,
    /// The client or command of the call.
    pub via: Option<String>,
    /// The agents on the way to the call.
    pub agent: Option<String>,
    /// The program of the call.
    pub program: Program,
    /// The process id of haft.
    pub pid: u32,
}

impl From<&Record> for Outline {
    fn from(record: &Record) -> Self {
        Self {
            id: record.id.clone(),
            time: record.time,
            outcome: record.outcome,
            merged: record.merged,
            tool: record.tool.clone(),
            duration_ms: record.duration_ms,
            waited_ms: record.waited_ms,
            caller: record.caller.clone(),
            via: record.via.clone(),
            agent: record.agent.clone(),
            program: record.program.clone(),
            pid: record.pid,
        }
    }
}

#[expect(clippy::large_enum_variant, reason = "one at a time, and nearly every line is an outline")]
enum Line {
    Of(Outline),
    Blank,
    Broken,
}

impl Outline {
    /// Returns the duration of the tool without the time waiting for a person, in milliseconds.
    pub fn ran_ms(&self) -> Option<f64> {
        self.duration_ms.map(|ms| (ms - self.waited_ms.unwrap_or_default()).max(0.0))
    }

    /// Returns whether this is the first line of a call.
    fn is_begin(&self) -> bool {
        self.outcome == Outcome::Started
    }

    /// Returns when the line was written, if stated: the lines of a file are in this order. Every call has a line
    /// with a time; a separate last line has none, because a suspended machine does not count the time.
    pub fn written(&self) -> Option<Timestamp> {
        let says = (self.is_begin() || self.merged) && self.time > Timestamp::UNIX_EPOCH;
        let took = SignedDuration::try_from_secs_f64(self.duration_ms.unwrap_or_default() / 1e3);
        let written = took.ok().and_then(|took| self.time.checked_add(took).ok()).unwrap_or(self.time);
        says.then_some(written)
    }
}

fn outline(line: &[u8]) -> Line {
    if line.trim_ascii().is_empty() {
        return Line::Blank;
    }
    match serde_json::from_slice::<Outline>(line) {
        Ok(outline) if !outline.id.is_empty() => Line::Of(outline),
        _ => Line::Broken,
    }
}

/// Parses a complete record.
fn record(line: &[u8]) -> Option<Record> {
    serde_json::from_slice(line).ok().filter(|record: &Record| !record.id.is_empty())
}
