//! The calls that end from now on.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::file::{CURRENT, MAX_LINE};
use super::super::{Outcome, Record};
use super::open;
use super::outline::record;

/// The calls that end from now on.
pub struct Followed {
    path: PathBuf,
    open: Option<(BufReader<File>, u64)>,
    /// The beginning of a line that is being written.
    partial: Vec<u8>,
}

impl Followed {
    /// Those of the journal in `directory`, in `file` after its first bytes.
    pub(super) fn new(directory: &Path, file: Option<(File, u64)>) -> io::Result<Self> {
        let opened = file.map(|(mut file, length)| {
            file.seek(SeekFrom::Start(length))?;
            let inode = file.metadata()?.ino();
            io::Result::Ok((BufReader::new(file), inode))
        });
        Ok(Self { path: directory.join(CURRENT), open: opened.transpose()?, partial: Vec::new() })
    }

    /// Those that have ended since it was asked last.
    pub fn ended(&mut self) -> io::Result<Vec<Record>> {
        let mut ended = self.rest()?;
        let current = std::fs::metadata(&self.path).ok().map(|metadata| metadata.ino());
        if current.is_some() && current != self.open.as_ref().map(|(_, inode)| *inode) {
            // The file was put aside, or has just been made; what came to its end is read already.
            let file = open(&self.path)?;
            self.open = file.zip(current).map(|(file, inode)| (BufReader::new(file), inode));
            self.partial.clear();
            ended.extend(self.rest()?);
        }
        Ok(ended)
    }

    fn rest(&mut self) -> io::Result<Vec<Record>> {
        let mut ended = Vec::new();
        let Some((open, _)) = &mut self.open else { return Ok(ended) };
        loop {
            let room = (MAX_LINE - self.partial.len().min(MAX_LINE)) as u64;
            if open.take(room).read_until(b'\n', &mut self.partial)? == 0 && room > 0 {
                return Ok(ended);
            }
            if self.partial.ends_with(b"\n") || room == 0 {
                ended.extend(record(&self.partial).filter(|record| record.outcome != Outcome::Started));
                self.partial.clear();
            }
        }
    }
}
