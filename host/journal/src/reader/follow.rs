//! Follows a journal line by line, across files: all new lines, or the calls that end.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memchr::{memchr, memmem};
use serde::{Deserialize, Serialize};

use super::super::file::{CURRENT, MAX_LINE, aside};
use super::super::{Outcome, Record};
use super::{open, record};

/// The maximum number of files rotated between two reads that are still read: a busy server fills a file in
/// seconds, and each is an open file. Beyond it, the oldest files are skipped.
const MAX_LATER: usize = 64;

/// The calls that end from now on. The iterator ends when no line is available, and continues when called again.
pub struct Followed {
    directory: PathBuf,
    open: Option<BufReader<File>>,
    inode: Option<u64>,
    /// The newest rotated file when the directory was last listed.
    newest_aside: Option<PathBuf>,
    /// The files after the open one, oldest first.
    later: VecDeque<File>,
    /// A line, or the beginning of a line that is being written.
    partial: Vec<u8>,
    /// Whether `partial` is a complete line that was returned.
    is_whole: bool,
}

/// A new line, of which only the end was located.
#[derive(Clone, Copy, Debug)]
pub struct NewLine<'a>(&'a [u8]);

/// A position in the journal, directly after a line, to continue reading from. Valid as long as its file is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bookmark {
    inode: u64,
    offset: u64,
}

/// The length of the beginning of a line with its id and outcome, in bytes: they precede all unbounded fields.
const HEAD: usize = 160;

/// The serialised forms of fields that are searched without parsing.
const ID: &[u8] = br#""id":""#;
const TOOL: &[u8] = br#","tool":"#;
const BEGIN: &[u8] = br#""outcome":"started""#;
const SUCCESS: &[u8] = br#""outcome":"ok""#;

impl Followed {
    /// Follows the journal in `directory`, from an offset in `file`; `newest_aside` has been read.
    pub(super) fn new(
        directory: &Path,
        file: Option<(File, u64)>,
        newest_aside: Option<PathBuf>,
    ) -> io::Result<Self> {
        let directory = directory.to_owned();
        let (later, partial, is_whole) = (VecDeque::new(), Vec::new(), false);
        let mut followed =
            Self { directory, open: None, inode: None, newest_aside, later, partial, is_whole };
        if let Some((mut file, length)) = file {
            file.seek(SeekFrom::Start(length))?;
            followed.read_from(file)?;
        }
        Ok(followed)
    }

    /// Follows the journal after `bookmark`; from the beginning without a bookmark, or if its file was removed.
    pub(super) fn after(directory: &Path, bookmark: Option<Bookmark>) -> io::Result<Self> {
        let mut followed = Self::new(directory, None, None)?;
        let aside = aside(directory)?;
        let current = directory.join(CURRENT);
        let all: Vec<&PathBuf> = aside.iter().chain([&current]).collect();
        let marked = |path: &&&PathBuf| {
            let inode = std::fs::metadata(path).ok().map(|metadata| metadata.ino());
            bookmark.is_some_and(|bookmark| inode == Some(bookmark.inode))
        };
        let (first, offset) = match (all.iter().find(marked), bookmark) {
            (Some(path), Some(bookmark)) => (*path, bookmark.offset),
            _ => (all.first().copied().unwrap_or(&current), 0),
        };
        if let Some(mut file) = open(first)? {
            let offset = if offset <= file.metadata()?.len() { offset } else { 0 };
            file.seek(SeekFrom::Start(offset))?;
            followed.read_from(file)?;
        }
        // Files newer than the first are found later.
        followed.newest_aside = aside.iter().rfind(|path| *path <= first && *first != current).cloned();
        if *first == current {
            followed.newest_aside = aside.last().cloned();
        }
        Ok(followed)
    }

    /// Returns the position after the last returned line; `None` before a file is opened.
    pub fn bookmark(&mut self) -> io::Result<Option<Bookmark>> {
        let (Some(open), Some(inode)) = (&mut self.open, self.inode) else { return Ok(None) };
        let partial = if self.is_whole { 0 } else { self.partial.len() as u64 };
        Ok(Some(Bookmark { inode, offset: open.stream_position()?.saturating_sub(partial) }))
    }

    fn read_from(&mut self, file: File) -> io::Result<()> {
        self.inode = Some(file.metadata()?.ino());
        self.open = Some(BufReader::new(file));
        self.partial.clear();
        self.is_whole = false;
        Ok(())
    }

    /// Returns the next line of a call that starts or ends; `None` if there is none for now. Costs a fraction of
    /// parsing the line.
    pub fn next_line(&mut self) -> io::Result<Option<NewLine<'_>>> {
        let is_there = self.advance()?;
        Ok(is_there.then_some(NewLine(&self.partial)))
    }

    fn next_ended(&mut self) -> io::Result<Option<Record>> {
        while let Some(line) = self.next_line()? {
            if let Some(ended) = line.record().filter(|record| record.outcome != Outcome::Started) {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    /// Reads the next complete line into `partial`. Returns whether there is one.
    fn advance(&mut self) -> io::Result<bool> {
        loop {
            if self.advance_in_open()? {
                return Ok(true);
            }
            if let Some(file) = self.later.pop_front() {
                self.read_from(file)?;
            } else if !self.find_later()? {
                return Ok(false);
            }
            // Lines appended to the open file before the next file began are read first.
        }
    }

    fn advance_in_open(&mut self) -> io::Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        if std::mem::take(&mut self.is_whole) {
            self.partial.clear();
        }
        let room = (MAX_LINE - self.partial.len().min(MAX_LINE)) as u64;
        open.take(room).read_until(b'\n', &mut self.partial)?;
        // A line longer than any record is split into several, none of which is a record.
        self.is_whole = self.partial.ends_with(b"\n") || self.partial.len() >= MAX_LINE;
        Ok(self.is_whole)
    }

    /// Finds the files after the open one. Returns whether there are any.
    fn find_later(&mut self) -> io::Result<bool> {
        // Opened before the others are listed, so that a file rotated meanwhile is recognised.
        let Some(current) = open(&self.directory.join(CURRENT))? else { return Ok(false) };
        let inode = current.metadata()?.ino();
        if self.inode == Some(inode) {
            return Ok(false);
        }
        let aside = aside(&self.directory)?;
        let begun =
            aside.iter().filter(|path| self.newest_aside.as_ref().is_none_or(|newest| *path > newest));
        for file in begun.rev().take(MAX_LATER).filter_map(|path| open(path).transpose()) {
            let file = file?;
            let found = file.metadata()?.ino();
            if found != inode && Some(found) != self.inode {
                self.later.push_front(file);
            }
        }
        self.later.push_back(current);
        self.newest_aside = aside.last().cloned().or(self.newest_aside.take());
        Ok(true)
    }
}

impl NewLine<'_> {
    /// Parses the record; `None` if the line is invalid.
    pub fn record(self) -> Option<Record> {
        record(self.0)
    }

    /// Returns the raw line, including its end.
    pub fn bytes(&self) -> &[u8] {
        self.0
    }

    /// Returns the id of the call, if the line has the format of this version.
    pub fn id(&self) -> Option<&str> {
        let start = memmem::find(self.head(), ID)? + ID.len();
        let id = self.head().get(start..)?;
        std::str::from_utf8(id.get(..memchr(b'"', id)?)?).ok()
    }

    /// Returns whether the line is the start of a call.
    pub fn is_begin(&self) -> bool {
        memmem::find(self.head(), BEGIN).is_some()
    }

    /// Returns whether the line is the end of a successful call.
    pub fn is_success(&self) -> bool {
        memmem::find(self.head(), SUCCESS).is_some()
    }

    /// Returns the beginning of the line, which contains no text of a caller.
    fn head(&self) -> &[u8] {
        let head = self.0.get(..HEAD).unwrap_or(self.0);
        head.get(..memmem::find(head, TOOL).unwrap_or(head.len())).unwrap_or_default()
    }
}

impl Iterator for Followed {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_ended().transpose()
    }
}
