//! The lines that are written from now on, one at a time, through however many files: all of them, or the calls that end.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memchr::{memchr, memmem};
use serde::{Deserialize, Serialize};

use super::super::file::{CURRENT, MAX_LINE, aside};
use super::super::{Outcome, Record};
use super::open;
use super::outline::record;

/// Files that are put aside between two looks and still read: a busy server fills one in seconds, and each is an open
/// file. Of more the oldest are passed over.
const MAX_LATER: usize = 64;

/// The calls that end from now on. As an iterator it ends with what there is for now, and goes on when it is asked again.
pub struct Followed {
    directory: PathBuf,
    open: Option<BufReader<File>>,
    inode: Option<u64>,
    /// The newest file that had been put aside when the directory was looked at last.
    newest_aside: Option<PathBuf>,
    /// Files that were begun after the open one, the oldest first.
    later: VecDeque<File>,
    /// A line, or the beginning of one that is being written.
    partial: Vec<u8>,
    /// Whether it is a whole one, which was handed out.
    is_whole: bool,
}

/// A line that was written, of which nothing was read yet but where it ends.
#[derive(Clone, Copy, Debug)]
pub struct NewLine<'a>(&'a [u8]);

/// A place in the journal, right after a line: where somebody goes on who has read until there. It is good for as long as the
/// file is kept that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bookmark {
    inode: u64,
    offset: u64,
}

/// Bytes at the beginning of a line in which its id and outcome stand: they come before all that has no bound.
const HEAD: usize = 160;

/// How the fields stand in a line that are looked for without reading it.
const ID: &[u8] = br#""id":""#;
const TOOL: &[u8] = br#","tool":"#;
const BEGIN: &[u8] = br#""outcome":"started""#;
const SUCCESS: &[u8] = br#""outcome":"ok""#;

impl Followed {
    /// Those of the journal in `directory`, in `file` after its first bytes; `newest_aside` is read already.
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

    /// Those after `bookmark`; all that is kept, where there is none, or its file is gone.
    pub(super) fn after(directory: &Path, bookmark: Option<Bookmark>) -> io::Result<Self> {
        let mut followed = Self::new(directory, None, None)?;
        let aside = match aside(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            files => files?,
        };
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
        // Those that are newer than the first are found later.
        followed.newest_aside = aside.iter().rfind(|path| *path <= first && *first != current).cloned();
        if *first == current {
            followed.newest_aside = aside.last().cloned();
        }
        Ok(followed)
    }

    /// Where the last line ends that was handed out; `None` before any file is read.
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

    /// The next line, of a call that begins or of one that ends; `None` where there is no other for now. It costs a
    /// fraction of what reading it whole does.
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

    /// Reads the next whole line into `partial`; whether there is one.
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
            // What was added to the open file before the next one was begun is read before that.
        }
    }

    fn advance_in_open(&mut self) -> io::Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        if std::mem::take(&mut self.is_whole) {
            self.partial.clear();
        }
        let room = (MAX_LINE - self.partial.len().min(MAX_LINE)) as u64;
        open.take(room).read_until(b'\n', &mut self.partial)?;
        // What is longer than any record comes in several, of which none is a record.
        self.is_whole = self.partial.ends_with(b"\n") || self.partial.len() >= MAX_LINE;
        Ok(self.is_whole)
    }

    /// Finds the files that were begun after the open one; whether there are any.
    fn find_later(&mut self) -> io::Result<bool> {
        // Before the others are listed: one that is put aside in between is known then.
        let Some(current) = open(&self.directory.join(CURRENT))? else { return Ok(false) };
        let inode = current.metadata()?.ino();
        if self.inode == Some(inode) {
            return Ok(false);
        }
        let aside = match aside(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            files => files?,
        };
        let begun =
            aside.iter().filter(|path| self.newest_aside.as_ref().is_none_or(|newest| *path > newest));
        for file in begun.rev().take(MAX_LATER).filter_map(|path| open(path).transpose()) {
            let file = file?;
            let own = file.metadata()?.ino();
            if own != inode && Some(own) != self.inode {
                self.later.push_front(file);
            }
        }
        self.later.push_back(current);
        self.newest_aside = aside.last().cloned().or(self.newest_aside.take());
        Ok(true)
    }
}

impl NewLine<'_> {
    /// All that it says; `None` where it is no line of a journal.
    pub fn record(self) -> Option<Record> {
        record(self.0)
    }

    /// The line as it stands, its end included.
    pub fn bytes(&self) -> &[u8] {
        self.0
    }

    /// The call's id, where the line looks like one of this version.
    pub fn id(&self) -> Option<&str> {
        let start = memmem::find(self.head(), ID)? + ID.len();
        let id = self.head().get(start..)?;
        std::str::from_utf8(id.get(..memchr(b'"', id)?)?).ok()
    }

    /// Whether it says that a call begins.
    pub fn is_begin(&self) -> bool {
        memmem::find(self.head(), BEGIN).is_some()
    }

    /// Whether it says that a call did what it was asked.
    pub fn is_success(&self) -> bool {
        memmem::find(self.head(), SUCCESS).is_some()
    }

    /// The beginning of the line, in which no text of a caller stands.
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
