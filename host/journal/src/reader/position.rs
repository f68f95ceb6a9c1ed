//! Where in a journal the calls since a time begin: found by halves, since lines stand in the order in which they were
//! written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use jiff::Timestamp;
use memchr::memchr;

use super::super::file::MAX_LINE;
use super::outline::{Line, outline};
use super::{View, earliest};

/// Bytes that are rather read than divided again.
const ENOUGH: u64 = 256 << 10;

/// The file and the place in it before which no call is that began at `since` or later.
pub(super) fn of(view: &View, since: Timestamp) -> io::Result<(usize, u64)> {
    let (mut low, mut high) = (0, view.count());
    // The last file that begins before then.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let is_older = match view.file(middle)? {
            Some((file, length)) => is_older(&file, 0, length, since)?.is_some(),
            // It is gone, and so are all before it.
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

/// Where the first line after `from` ends that says when it was written, if that was before `since`. Where none does the
/// time is not known, and taken for a later one.
fn is_older(file: &File, from: u64, to: u64, since: Timestamp) -> io::Result<Option<u64>> {
    // Room for the rest of one line and the whole of another, which is short as good as always.
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
