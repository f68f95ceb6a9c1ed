//! A line that is too long to be held: it passes piece by piece, each once the parser has taken the one before as JSON.

use std::io::{self, BufRead, Read, Write};

use super::listed::may_list;
use haft_core::scan::Scan;

/// Bytes of a piece that are looked at again with the next one: more than the longest way to write the key of a list.
const OVERLAP: usize = 64;
/// Open objects and arrays: the parser remembers each, and no result has a hundredth of them.
const MAX_DEPTH: usize = 10_000;
/// Bytes of a character in UTF-8 after its first one.
const MAX_CONTINUED: usize = 3;
/// What some clients end a line at, other than a newline and a carriage return, without its first bytes being JSON.
const OTHER_ENDS: &[&str] =
    &["\u{b}", "\u{c}", "\u{1c}", "\u{1d}", "\u{1e}", "\u{85}", "\u{2028}", "\u{2029}"];

/// The rest of a line, for a parser that reads it. What that has read is written to `output`.
pub(super) struct Long<O, R> {
    output: O,
    server: R,
    /// The end of the pieces before, and the piece from `begin` on, of which the parser has read up to `at`.
    window: Vec<u8>,
    begin: usize,
    at: usize,
    scan: Scan,
    may_list: bool,
    may_be_several: bool,
    is_over: bool,
}

impl<O: Write, R: BufRead> Long<O, R> {
    pub(super) fn new(output: O, server: R) -> Self {
        Self {
            output,
            server,
            window: Vec::new(),
            begin: 0,
            at: 0,
            scan: Scan::default(),
            may_list: false,
            may_be_several: false,
            is_over: false,
        }
    }

    /// Writes the piece, which was read, and takes the next one.
    fn advance(&mut self) -> io::Result<()> {
        self.output.write_all(self.window.get(self.begin..).unwrap_or_default())?;
        self.window.drain(..self.window.len().saturating_sub(OVERLAP));
        (self.begin, self.at) = (self.window.len(), self.window.len());
        if self.is_over {
            return Ok(());
        }
        let bytes = self.server.fill_buf()?;
        let end = bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
        let piece = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        self.is_over = end.is_some() || piece.is_empty();
        self.window.extend_from_slice(piece);
        let count = piece.len();
        self.server.consume(count);
        self.check().map_err(io::Error::other)
    }

    /// Whether the line goes on: it has no key of a list where a list has it, nor anywhere where it is several lines to some
    /// clients.
    fn check(&mut self) -> Result<(), &'static str> {
        if !is_text(&self.window) {
            return Err("it is not UTF-8");
        }
        self.scan.feed(self.window.get(self.begin..).unwrap_or_default());
        self.may_list |= may_list(&self.window);
        self.may_be_several |= has_other_end(&self.window);
        if self.scan.has_tools() || (self.may_list && self.may_be_several) {
            return Err("it may list tools");
        }
        if self.scan.depth() > MAX_DEPTH { Err("it is nested too deeply") } else { Ok(()) }
    }
}

impl<O: Write, R: BufRead> Read for Long<O, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.window.len() {
            self.advance()?;
        }
        let count = self.window.get(self.at..).unwrap_or_default().read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

/// Whether a part of a line, which may begin and end within a character, is UTF-8.
fn is_text(part: &[u8]) -> bool {
    let is_continued = |byte: &&u8| **byte & 0xc0 == 0x80;
    let continued = part.iter().take(MAX_CONTINUED).take_while(is_continued).count();
    match std::str::from_utf8(part.get(continued..).unwrap_or_default()) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

/// Whether a part of a line has what some clients end a line at. A carriage return at its end counts with the next part.
fn has_other_end(part: &[u8]) -> bool {
    let begins = |at: usize| {
        let rest = part.get(at..).unwrap_or_default();
        OTHER_ENDS.iter().any(|end| rest.starts_with(end.as_bytes()))
            || matches!(rest, [b'\r', next, ..] if *next != b'\n')
    };
    let may_begin = |byte: u8| matches!(byte, 0xb | 0xc | b'\r' | 0x1c..=0x1e | 0xc2 | 0xe2);
    part.iter().enumerate().any(|(at, byte)| may_begin(*byte) && begins(at))
}
