//! Reads the lines of a journal from the last to the first, and finds the last calls.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use jiff::Timestamp;
use memchr::memrchr;

use super::super::file::MAX_LINE;
use super::calls::{MAX_OPEN, in_order};
use super::outline::{Line, Outline, outline, record};
use super::{Last, Record, View, earliest};

/// The size of a read in bytes.
const BLOCK: u64 = 256 << 10;

/// The lines of all files, last first.
pub(super) struct Backward<'a> {
    view: &'a View,
    /// The number of files not yet opened.
    files: usize,
    open: Option<Lines>,
}

/// The lines of a file, last first.
struct Lines {
    file: File,
    /// The offset of the buffer in the file.
    start: u64,
    buffer: Vec<u8>,
}

impl<'a> Backward<'a> {
    pub(super) fn new(view: &'a View) -> Self {
        Self { view, files: view.count(), open: None }
    }

    /// Reads the next line into `line`; returns whether there is one. A line longer than any record is split into
    /// several, none of which is a record.
    pub(super) fn next(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        loop {
            if let Some(open) = &mut self.open
                && open.next(line)?
            {
                return Ok(true);
            }
            let Some(index) = self.files.checked_sub(1) else { return Ok(false) };
            self.files = index;
            self.open =
                self.view.file(index)?.map(|(file, end)| Lines { file, start: end, buffer: Vec::new() });
        }
    }
}

impl Lines {
    /// Takes the last line from the buffer; returns whether there is one.
    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            let end = self.buffer.len();
            // The line's own end is not the end of another line.
            let body = self.buffer.get(..end.saturating_sub(1)).unwrap_or_default();
            let start = match memrchr(b'\n', body) {
                Some(before) => before + 1,
                None if self.start == 0 || end > MAX_LINE => 0,
                None => {
                    self.read_more()?;
                    continue;
                }
            };
            line.extend_from_slice(self.buffer.get(start..).unwrap_or_default());
            self.buffer.truncate(start);
            return Ok(end > 0);
        }
    }

    fn read_more(&mut self) -> io::Result<()> {
        let start = self.start.saturating_sub(BLOCK);
        let mut block = vec![0; usize::try_from(self.start - start).unwrap_or_default()];
        self.file.read_exact_at(&mut block, start)?;
        block.append(&mut self.buffer);
        (self.start, self.buffer) = (start, block);
        Ok(())
    }
}

/// The state of a search for the last calls.
struct Search<'a> {
    is_wanted: &'a dyn Fn(&Outline) -> bool,
    since: Option<Timestamp>,
    /// Calls that have ended, and whose first line is before this position.
    ended: HashSet<String>,
    last: Last,
    unended: Vec<Record>,
}

impl View {
    /// Returns the last `count` calls that `is_wanted` accepts, read from the end.
    pub fn last(
        &self,
        count: usize,
        since: Option<Timestamp>,
        is_wanted: impl Fn(&Outline) -> bool,
    ) -> io::Result<Last> {
        let (ended, last, unended) = (HashSet::new(), Last::default(), Vec::new());
        let mut search = Search { is_wanted: &is_wanted, since, ended, last, unended };
        let (mut lines, mut line) = (Backward::new(self), Vec::new());
        while search.last.records.len() + search.unended.len() < count {
            if !lines.next(&mut line)? || !search.add(&line) {
                return Ok(search.done());
            }
        }
        search.last.is_cut = lines.next(&mut line)?;
        Ok(search.done())
    }

    /// Passes the outlines of the lines to `visit`, from the last to the first, with a function that reads the
    /// whole record, until `visit` breaks. A call has one or two lines.
    pub fn backward(
        &self,
        mut visit: impl FnMut(&Outline, &dyn Fn() -> Option<Record>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let (mut lines, mut line) = (Backward::new(self), Vec::new());
        while lines.next(&mut line)? {
            if let Line::Of(outline) = outline(&line)
                && visit(&outline, &|| record(&line)).is_break()
            {
                break;
            }
        }
        Ok(())
    }
}

impl Search<'_> {
    /// Adds a line; returns whether earlier lines matter: they do not if they are older than the search.
    fn add(&mut self, line: &[u8]) -> bool {
        let outline = match outline(line) {
            Line::Of(outline) => outline,
            Line::Blank => return true,
            Line::Broken => {
                self.last.broken += 1;
                return true;
            }
        };
        if outline.written().zip(self.since).is_some_and(|(written, since)| written < earliest(since)) {
            return false;
        }
        let is_late = self.since.is_none_or(|since| outline.time >= since);
        let is_wanted = is_late && (self.is_wanted)(&outline);
        if outline.is_begin() {
            if !self.ended.remove(&outline.id) && is_wanted {
                self.unended.extend(record(line));
            }
        } else {
            if is_wanted {
                self.last.records.extend(record(line));
            }
            if !outline.merged && self.ended.len() < MAX_OPEN {
                self.ended.insert(outline.id);
            }
        }
        true
    }

    fn done(mut self) -> Last {
        self.last.records.reverse();
        in_order(&mut self.unended);
        self.last.records.append(&mut self.unended);
        self.last
    }
}
