//! Overlapping pieces of a text, so that a match across a border is found. Holds one piece at a time.

use std::io::{self, ErrorKind, Read};

/// Bytes of a piece: many of those that WASI gives at a time.
const PIECE: usize = 1 << 20;

/// Goes through a text once.
pub(crate) struct Windows<R> {
    source: R,
    buffer: Vec<u8>,
    filled: usize,
    overlap: usize,
    /// Where the buffer begins in the text.
    start: u64,
    is_end: bool,
}

/// A piece.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a> {
    /// Where it begins in the text.
    pub(crate) start: u64,
    pub(crate) bytes: &'a [u8],
    pub(crate) is_last: bool,
}

impl<R: Read> Windows<R> {
    /// Pieces of `source`, each of which begins with the last `overlap` bytes of the one before.
    pub(crate) fn new(source: R, overlap: usize) -> Self {
        // Twice, so that no byte is moved more often than once on average.
        let buffer = vec![0; PIECE.max(2 * overlap)];
        Self { source, buffer, filled: 0, overlap, start: 0, is_end: false }
    }

    /// The next piece, at least one for every text.
    pub(crate) fn next(&mut self) -> io::Result<Option<Window<'_>>> {
        if self.is_end {
            return Ok(None);
        }
        let kept = self.overlap.min(self.filled);
        self.buffer.copy_within(self.filled - kept..self.filled, 0);
        self.start += (self.filled - kept) as u64;
        self.filled = kept;
        self.fill()?;
        let bytes = self.buffer.get(..self.filled).unwrap_or_default();
        Ok(Some(Window { start: self.start, bytes, is_last: self.is_end }))
    }

    fn fill(&mut self) -> io::Result<()> {
        while let Some(free) = self.buffer.get_mut(self.filled..).filter(|free| !free.is_empty()) {
            match self.source.read(free) {
                Ok(0) => {
                    self.is_end = true;
                    return Ok(());
                }
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<'a> Window<'a> {
    /// Where it ends in the text.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// What of it stands at `place` of the text and behind it.
    pub(crate) fn from(&self, place: u64) -> &'a [u8] {
        let index = usize::try_from(place.saturating_sub(self.start)).unwrap_or(usize::MAX);
        self.bytes.get(index..).unwrap_or_default()
    }

    /// What of it stands from `start` to `end` of the text.
    pub(crate) fn between(&self, start: u64, end: u64) -> &'a [u8] {
        let bytes = self.from(start);
        let length = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        bytes.get(..length).unwrap_or(bytes)
    }
}
