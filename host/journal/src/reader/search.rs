//! Finds a call by its id, the calls made for it, and the position of the calls since a time. Compares the bytes
//! of lines, and parses only matching ones. Lines are in the order of their writing, so that bisection finds a
//! position.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use jiff::Timestamp;
use memchr::{memchr, memmem, memrchr};

use super::calls::{MAX_OPEN, in_order};
use super::{Last, Line, Outline, View, earliest, outline, record};
use crate::Record;
use crate::file::MAX_LINE;

/// The beginning of a line of this version; the id follows.
const HEAD: &str = "{\"v\":1,\"id\":\"";

/// The result of a search for an id.
#[derive(Debug)]
pub enum Found {
    /// One call.
    One(Box<Record>),
    /// Several calls have this prefix.
    Several,
    /// No call.
    None,
}

impl View {
    /// Returns the call with this id or prefix, and the number of unreadable lines on the way.
    pub fn find(&self, id: &str) -> io::Result<(Found, usize)> {
        let start = format!("{HEAD}{id}");
        let (mut lines, mut line, mut found) = (Backward::new(self), Vec::new(), None::<Record>);
        let (mut is_several, mut broken) = (false, 0);
        while lines.next(&mut line)? {
            if is_another(&line, &start) {
                continue;
            }
            let Some(record) = record(&line) else {
                broken += 1;
                continue;
            };
            if record.id == id {
                // The last line of a call is complete.
                return Ok((Found::One(Box::new(record)), broken));
            }
            if !record.id.starts_with(id) {
                continue;
            }
            match &found {
                Some(found) => is_several |= found.id != record.id,
                None => found = Some(record),
            }
        }
        let found = match found {
            _ if is_several => Found::Several,
            Some(record) => Found::One(Box::new(record)),
            None => Found::None,
        };
        Ok((found, broken))
    }

    /// Returns the calls that an agent made to answer `parent`, in order, at most `count`.
    pub fn children(&self, parent: &Record, count: usize) -> io::Result<Vec<Record>> {
        // The children follow the first line of their parent.
        let (first, child) = (format!("{HEAD}{}\"", parent.id), format!("\"parent\":\"{}\"", parent.id));
        let child = memmem::Finder::new(child.as_bytes());
        let (mut lines, mut line) = (Backward::new(self), Vec::new());
        let (mut ended, mut seen, mut unended) = (Vec::new(), HashSet::new(), Vec::new());
        while seen.len() < count && lines.next(&mut line)? {
            let is_child = child.find(&line).is_some();
            let read = (is_child || line.starts_with(first.as_bytes())).then(|| record(&line)).flatten();
            let Some(record) = read else { continue };
            let is_begin = record.outcome == super::super::Outcome::Started;
            if record.id == parent.id && (is_begin || record.merged) {
                break;
            }
            if record.parent.as_ref() == Some(&parent.id) && seen.insert(record.id.clone()) {
                if is_begin { unended.push(record) } else { ended.push(record) }
            }
        }
        ended.reverse();
        in_order(&mut unended);
        ended.append(&mut unended);
        Ok(ended)
    }
}

/// Returns whether a line is complete and of a call whose line does not begin with `start`, or blank: by its first
/// and last bytes.
fn is_another(line: &[u8], start: &str) -> bool {
    let line = line.trim_ascii_end();
    line.is_empty()
        || line.starts_with(HEAD.as_bytes()) && !line.starts_with(start.as_bytes()) && line.ends_with(b"}")
}

/// The size of a range, in bytes, that is read instead of divided again.
const ENOUGH: u64 = 256 << 10;

/// Returns the file and the offset before which no call since `since` begins.
pub(super) fn position_of(view: &View, since: Timestamp) -> io::Result<(usize, u64)> {
    let (mut low, mut high) = (0, view.count());
    // Find the last file that begins before `since`.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let is_older = match view.file(middle)? {
            Some((file, length)) => is_older(&file, 0, length, since)?.is_some(),
            // The file was removed, and so were all before it.
            None => true,
        };
        if is_older { low = middle } else { high = middle }
    }
    let Some((file, length)) = view.file(low)? else { return Ok((low, 0)) };
    Ok((low, within(&file, length, since)?))
}

fn within(file: &File, length: u64, since: Timestamp) -> io::Result<u64> {
    let (mut low, mut high) = (0, length);
    while high - low > ENOUGH {
        let middle = low + (high - low) / 2;
        match is_older(file, middle, high, since)? {
            Some(end) => low = end,
            None => high = middle,
        }
    }
    Ok(low)
}

/// Returns the end of the first line after `from` that has a time, if that is before `since`. Without such a line,
/// the time counts as later.
fn is_older(file: &File, from: u64, to: u64, since: Timestamp) -> io::Result<Option<u64>> {
    // Room for the rest of one line and another complete line, which is nearly always short.
    let mut block = vec![0; usize::try_from((to - from).min(2 * MAX_LINE as u64)).unwrap_or_default()];
    let read = file.read_at(&mut block, from)?;
    block.truncate(read);
    let mut at = if from == 0 { 0 } else { memchr(b'\n', &block).map_or(block.len(), |end| end + 1) };
    while let Some(rest) = block.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(end) = memchr(b'\n', rest) else { return Ok(None) };
        at += end + 1;
        if let Line::Of(outline) = outline(rest.get(..end).unwrap_or_default())
            && let Some(written) = outline.written()
        {
            return Ok((written < earliest(since)).then_some(from + at as u64));
        }
    }
    Ok(None)
}

// Reads the lines of a journal from the last to the first, and finds the last calls.

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

    /// Reads the next line into `line`. Returns whether there is one. A line longer than any record is split into
    /// several lines, none of which is a record.
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
    /// Takes the last line from the buffer. Returns whether there is one.
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
    /// complete record, until `visit` breaks. A call has one or two lines.
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
