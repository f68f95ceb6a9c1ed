//! The calls that end from now on, one at a time, through however many files.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
    /// The beginning of a line that is being written.
    partial: Vec<u8>,
}

impl Followed {
    /// Those of the journal in `directory`, in `file` after its first bytes; `newest_aside` is read already.
    pub(super) fn new(
        directory: &Path,
        file: Option<(File, u64)>,
        newest_aside: Option<PathBuf>,
    ) -> io::Result<Self> {
        let directory = directory.to_owned();
        let (later, partial) = (VecDeque::new(), Vec::new());
        let mut followed = Self { directory, open: None, inode: None, newest_aside, later, partial };
        if let Some((mut file, length)) = file {
            file.seek(SeekFrom::Start(length))?;
            followed.read_from(file)?;
        }
        Ok(followed)
    }

    fn read_from(&mut self, file: File) -> io::Result<()> {
        self.inode = Some(file.metadata()?.ino());
        self.open = Some(BufReader::new(file));
        self.partial.clear();
        Ok(())
    }

    fn next_ended(&mut self) -> io::Result<Option<Record>> {
        loop {
            if let Some(record) = self.next_in_open()? {
                return Ok(Some(record));
            }
            if let Some(file) = self.later.pop_front() {
                self.read_from(file)?;
            } else if !self.find_later()? {
                return Ok(None);
            }
            // What was added to the open file before the next one was begun is read before that.
        }
    }

    fn next_in_open(&mut self) -> io::Result<Option<Record>> {
        let Some(open) = &mut self.open else { return Ok(None) };
        loop {
            let room = (MAX_LINE - self.partial.len().min(MAX_LINE)) as u64;
            if open.take(room).read_until(b'\n', &mut self.partial)? == 0 && room > 0 {
                return Ok(None);
            }
            if self.partial.ends_with(b"\n") || room == 0 {
                let ended = record(&self.partial).filter(|record| record.outcome != Outcome::Started);
                self.partial.clear();
                if ended.is_some() {
                    return Ok(ended);
                }
            }
        }
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

impl Iterator for Followed {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_ended().transpose()
    }
}
