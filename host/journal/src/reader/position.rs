//! Finds the position of the calls since a time by bisection, since lines are in the order in which they were
//! written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use jiff::Timestamp;
use memchr::memchr;

use super::super::file::MAX_LINE;
use super::outline::{Line, outline};
use super::{View, earliest};

/// The size of a range, in bytes, that is read instead of divided again.
const ENOUGH: u64 = 256 << 10;

/// Returns the file and the offset before which no call since `since` begins.
pub(super) fn of(view: &View, since: Timestamp) -> io::Result<(usize, u64)> {
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
