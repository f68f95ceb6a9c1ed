//! Examines a text in one pass: whether it is UTF-8, its kind of line ends, and the positions of two texts.

use memchr::{memchr, memchr_iter, memmem};

use crate::windows::Window;

/// How many places are kept: as many as an error names.
pub(super) const MAX_PLACES: usize = 10;

/// Whether a text is UTF-8, as far as it was seen.
#[derive(Default)]
pub(super) struct Utf8 {
    /// All before this is.
    valid: u64,
    pub(super) is_broken: bool,
}

/// How lines end, as far as they were seen.
#[derive(Default)]
pub(super) struct LineEnds {
    pub(super) has_crlf: bool,
    pub(super) has_bare_lf: bool,
    seen: u64,
}

/// Where a text occurs.
pub(super) struct Occurrences<'n> {
    finder: memmem::Finder<'n>,
    /// From one occurrence to where the next may begin, as long as their places are kept.
    step: usize,
    /// Where the next may begin.
    from: u64,
    pub(super) count: usize,
    /// The first ones.
    pub(super) places: Vec<u64>,
}

impl Utf8 {
    /// Bytes of a piece that must be in the next one again: an unfinished character.
    pub(super) const OVERLAP: usize = 3;

    pub(super) fn look(&mut self, window: Window<'_>) {
        let Err(error) = str::from_utf8(window.from(self.valid)) else {
            self.valid = window.end();
            return;
        };
        self.valid += error.valid_up_to() as u64;
        self.is_broken |= error.error_len().is_some() || window.is_last;
    }

    /// Where the first byte stands that is none.
    pub(super) fn valid(&self) -> u64 {
        self.valid
    }
}

impl LineEnds {
    /// Looks no further than to the first of each kind.
    pub(super) fn look(&mut self, window: Window<'_>) {
        let bytes = window.from(self.seen.saturating_sub(1));
        let before = |end: usize| end.checked_sub(1).and_then(|index| bytes.get(index));
        let is_old = |end: usize| end == 0 && self.seen > 0;
        if !self.has_bare_lf {
            let mut ends = memchr_iter(b'\n', bytes).filter(|end| !is_old(*end));
            self.has_bare_lf = ends.any(|end| before(end) != Some(&b'\r'));
        }
        if !self.has_crlf && memchr(b'\r', bytes).is_some() {
            self.has_crlf = memmem::find(bytes, b"\r\n").is_some();
        }
        self.seen = window.end();
    }

    /// Whether every line ends in CRLF, and there is one.
    pub(super) fn is_crlf(&self) -> bool {
        self.has_crlf && !self.has_bare_lf
    }
}

impl<'n> Occurrences<'n> {
    /// Those of `text`; with `overlapping`, the first [`MAX_PLACES`] may begin within another. More may not: of a long
    /// text that repeats itself each would be compared whole.
    pub(super) fn new(text: &'n str, overlapping: bool) -> Self {
        let first = text.chars().next().map_or(1, char::len_utf8);
        let step = if overlapping { first } else { text.len().max(1) };
        Self { finder: memmem::Finder::new(text), step, from: 0, count: 0, places: Vec::new() }
    }

    /// Bytes of a piece that must be in the next one again.
    pub(super) fn overlap(&self) -> usize {
        self.finder.needle().len().saturating_sub(1)
    }

    /// The next one in `window`, if any is whole there.
    pub(super) fn next(&mut self, window: Window<'_>) -> Option<u64> {
        let Some(index) = self.finder.find(window.from(self.from)) else {
            self.from = self.from.max(window.end().saturating_sub(self.overlap() as u64));
            return None;
        };
        let place = self.from + index as u64;
        let step = if self.count < MAX_PLACES { self.step } else { self.finder.needle().len() };
        self.from = place + step as u64;
        Some(place)
    }

    pub(super) fn look(&mut self, window: Window<'_>) {
        while let Some(place) = self.next(window) {
            self.count += 1;
            if self.places.len() < MAX_PLACES {
                self.places.push(place);
            }
        }
    }
}
