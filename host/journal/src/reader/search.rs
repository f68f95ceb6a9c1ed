//! Finds a call by its id, the calls made for it, and the position of the calls since a time. Compares the
//! bytes of lines, and parses only matching ones. Lines are in the order in which they were written, so a
//! position is found by bisection.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use jiff::Timestamp;
use memchr::{memchr, memmem};

use super::super::Record;
use super::super::file::MAX_LINE;
use super::backward::Backward;
use super::calls::in_order;
use super::outline::{Line, outline, record};
use super::{View, earliest};

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

/// Whether a line is complete and of a call whose line does not begin with `start`, or blank: by its first and last
/// bytes.
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
    // Room for the rest of one line and another whole line, which is nearly always short.
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
