//! The calls of a journal, oldest first, in the order of their ends.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take};
use std::vec::IntoIter;

use jiff::Timestamp;

use super::super::Record;
use super::super::file::MAX_LINE;
use super::{Line, Outline, View, outline, record};

/// The size of a read in bytes.
const BLOCK: usize = 256 << 10;

/// The maximum number of started calls whose end is awaited, many times those that run concurrently: beyond it, the
/// starts of further calls are dropped, and calls without an end are not reported.
pub(super) const MAX_OPEN: usize = 1 << 16;

/// The calls of a journal.
pub struct Calls {
    view: View,
    /// The index of the next file, and the offset in it.
    next: (usize, u64),
    open: Option<BufReader<Take<File>>>,
    since: Option<Timestamp>,
    is_wanted: Box<dyn Fn(&Outline) -> bool>,
    /// The first lines of calls that have not ended.
    begun: HashMap<String, Box<[u8]>>,
    /// After all lines: the calls that have not ended.
    unended: Option<IntoIter<Record>>,
    broken: usize,
    line: Vec<u8>,
}

impl Calls {
    pub(super) fn new(
        view: View,
        next: (usize, u64),
        since: Option<Timestamp>,
        is_wanted: Box<dyn Fn(&Outline) -> bool>,
    ) -> Self {
        let (open, begun, unended, broken, line) = (None, HashMap::new(), None, 0, Vec::new());
        Self { view, next, open, since, is_wanted, begun, unended, broken, line }
    }

    /// Returns the number of unreadable lines so far.
    pub fn broken(&self) -> usize {
        self.broken
    }

    /// Reads the next line into `self.line`. Returns whether there is one. A line longer than any record is split
    /// into several lines, none of which is a record.
    fn next_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        loop {
            if let Some(open) = &mut self.open
                && open.take(MAX_LINE as u64).read_until(b'\n', &mut self.line)? > 0
            {
                return Ok(true);
            }
            let (index, offset) = self.next;
            if index == self.view.count() {
                return Ok(false);
            }
            self.next = (index + 1, 0);
            self.open = match self.view.file(index)? {
                Some((mut file, length)) => {
                    file.seek(SeekFrom::Start(offset))?;
                    let rest = file.take(length.saturating_sub(offset));
                    Some(BufReader::with_capacity(BLOCK, rest))
                }
                None => None,
            };
        }
    }

    fn next_ended(&mut self) -> io::Result<Option<Record>> {
        while self.next_line()? {
            let outline = match outline(&self.line) {
                Line::Of(outline) => outline,
                Line::Blank => continue,
                Line::Broken => {
                    self.broken += 1;
                    continue;
                }
            };
            if !outline.is_begin() {
                self.begun.remove(&outline.id);
            }
            let is_late = self.since.is_none_or(|since| outline.time >= since);
            if !is_late || !(self.is_wanted)(&outline) {
                continue;
            }
            if !outline.is_begin() {
                return Ok(record(&self.line));
            }
            if self.begun.len() < MAX_OPEN {
                self.begun.insert(outline.id, self.line.as_slice().into());
            }
        }
        Ok(None)
    }

    fn next_call(&mut self) -> io::Result<Option<Record>> {
        if let Some(ended) = self.next_ended()? {
            return Ok(Some(ended));
        }
        let unended = self.unended.get_or_insert_with(|| {
            let mut unended: Vec<_> = self.begun.drain().filter_map(|(_, line)| record(&line)).collect();
            in_order(&mut unended);
            unended.into_iter()
        });
        Ok(unended.next())
    }
}

/// Sorts calls that have not ended by their start.
pub(super) fn in_order(unended: &mut [Record]) {
    unended.sort_unstable_by(|a, b| (a.time, &a.id).cmp(&(b.time, &b.id)));
}

impl Iterator for Calls {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_call().transpose()
    }
}
