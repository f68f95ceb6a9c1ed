//! A page of a text: a number of characters from a line and column on, and the size of the rest up to a limit.
//! Streams, so that the length of the text and of its lines does not matter. Knows no paths.

use std::io::{self, ErrorKind, Read};
use std::time::Instant;

use crate::newlines;

/// Bytes read at a time: what WASI gives at most.
const CHUNK: usize = 64 << 10;

/// Where binary files show themselves: the first bytes, as git looks at them.
const HEAD: usize = 8000;

/// Bytes behind a full page that are still read, to count them: what follows a page in a long source file. Beyond that
/// the first page of a log of many gigabytes would take as long as all of it.
const COUNTED: usize = 1 << 20;

/// A place in a text, both counted from 1; the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four independent things that may be so of a page")]
pub(crate) struct Page {
    /// The characters themselves, as they are.
    pub(crate) text: String,
    /// How many there are in `text`.
    pub(crate) shown: usize,
    /// How many there are of those asked for, shown or not; of more than were counted, so many as were.
    pub(crate) total: usize,
    /// Whether there are more than `total`.
    pub(crate) uncounted: bool,
    /// Whether the time was up before all was read that is shown.
    pub(crate) gave_up: bool,
    /// Where the text goes on, if not all was shown.
    pub(crate) next: Option<Position>,
    /// The last line that was met; 0 for an empty text.
    pub(crate) last_line: u64,
    /// Whether the first line asked for ends before the column asked for.
    pub(crate) missed_column: bool,
    /// How many shown characters stand for bytes that are not UTF-8.
    pub(crate) replaced: usize,
    /// Whether this is no text: there are NUL bytes at its start or in what would be shown.
    pub(crate) binary: bool,
}

/// Reads up to `lines` lines of `source` from a place on, and keeps at most `most` characters. Gives up at `deadline`.
pub(crate) fn read(
    source: impl Read,
    from: Position,
    lines: Option<u64>,
    most: usize,
    deadline: Instant,
) -> io::Result<Page> {
    let last = lines.map_or(u64::MAX, |lines| from.line.saturating_add(lines - 1));
    let at = Position { line: 1, column: 1 };
    let mut reader = Reader { page: Page::default(), from, last, most, at, behind: 0, deadline };
    decode(source, &mut reader)?;
    Ok(reader.finish())
}

struct Reader {
    page: Page,
    from: Position,
    last: u64,
    most: usize,
    /// Where the next character stands.
    at: Position,
    /// Bytes that were read behind a full page.
    behind: usize,
    deadline: Instant,
}

impl Reader {
    fn is_done(&self) -> bool {
        self.page.binary || self.page.missed_column || self.at.line > self.last
    }

    /// Whether `read` more bytes are too many, or come too late.
    fn stops(&mut self, read: usize) -> bool {
        if self.page.next.is_some() {
            self.page.uncounted = read > 0 && self.behind >= COUNTED;
            self.behind += read;
            return self.page.uncounted;
        }
        self.page.gave_up = read > 0 && Instant::now() >= self.deadline;
        self.page.gave_up
    }

    /// Passes over the lines before the first one asked for, whatever their bytes mean; says how many bytes they have
    /// of these.
    fn skip(&mut self, bytes: &[u8]) -> usize {
        let lines = self.from.line.saturating_sub(self.at.line);
        if lines == 0 || bytes.is_empty() || self.page.binary {
            return 0;
        }
        let (passed, used) = newlines::pass(bytes, lines);
        let ends_line = bytes.get(..used).is_some_and(|bytes| bytes.ends_with(b"\n"));
        self.at = Position { line: self.at.line + passed, column: 1 };
        self.page.last_line = self.at.line - u64::from(ends_line);
        used
    }

    /// Takes the next characters of the text.
    fn take(&mut self, text: &str) {
        for part in text.split_inclusive('\n') {
            if self.is_done() {
                return;
            }
            self.take_part(part);
        }
    }

    /// Takes a line or a part of one.
    fn take_part(&mut self, part: &str) {
        let chars = count(part);
        self.page.last_line = self.at.line;
        if self.at.line == self.from.line {
            self.take_first_line(part, chars);
        } else if self.at.line > self.from.line {
            self.show(part, self.at);
        }
        self.at = if part.ends_with('\n') {
            Position { line: self.at.line + 1, column: 1 }
        } else {
            Position { column: self.at.column + chars, ..self.at }
        };
    }

    /// Of the first line, only what stands at the column asked for or behind it.
    fn take_first_line(&mut self, part: &str, chars: u64) {
        let skip = self.from.column.saturating_sub(self.at.column);
        if skip < chars {
            let column = self.at.column + skip;
            self.show(behind(part, skip), Position { column, ..self.at });
        } else if part.ends_with('\n') {
            self.page.missed_column = true;
        }
    }

    fn show(&mut self, part: &str, at: Position) {
        let room = self.most - self.page.shown;
        let kept = before(part, room);
        let chars = part.chars().count();
        self.page.text.push_str(kept);
        self.page.shown += chars.min(room);
        self.page.total += chars;
        self.page.binary |= kept.contains('\0');
        if chars > room && self.page.next.is_none() {
            self.page.next = Some(Position { column: at.column + room as u64, ..at });
        }
    }

    /// One character for bytes that are none.
    fn take_invalid(&mut self) {
        let shown = self.page.shown;
        self.take("\u{fffd}");
        self.page.replaced += self.page.shown - shown;
    }

    fn finish(mut self) -> Page {
        let nothing = self.page.total == 0 && self.page.last_line == self.from.line;
        self.page.missed_column |= nothing && self.from.column > 1;
        self.page
    }
}

/// Reads all of `source` that the reader wants, as text; a sequence of bytes that no character
/// has becomes one replacement.
fn decode(mut source: impl Read, reader: &mut Reader) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut carried = 0;
    let mut first = true;
    loop {
        let free = buffer.get_mut(carried..).unwrap_or_default();
        let read = match source.read(free) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        };
        if reader.stops(read) {
            return Ok(());
        }
        let filled = carried + read;
        let bytes = buffer.get(..filled).unwrap_or_default();
        if std::mem::take(&mut first) {
            reader.page.binary = bytes.iter().take(HEAD).any(|byte| *byte == 0);
        }
        let bytes = bytes.get(reader.skip(bytes)..).unwrap_or_default();
        let unfinished = take_bytes(bytes, read == 0, reader);
        buffer.copy_within(filled - unfinished..filled, 0);
        carried = unfinished;
        if read == 0 || reader.is_done() {
            return Ok(());
        }
    }
}

/// Hands `bytes` on, but for an unfinished character at their end; says how long that is.
fn take_bytes(bytes: &[u8], is_end: bool, reader: &mut Reader) -> usize {
    let mut left = bytes.len();
    for chunk in bytes.utf8_chunks() {
        reader.take(chunk.valid());
        left -= chunk.valid().len();
        let invalid = chunk.invalid();
        let unfinished =
            invalid.len() == left && str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none());
        if unfinished && !is_end {
            return left;
        }
        if !invalid.is_empty() {
            reader.take_invalid();
        }
        left -= invalid.len();
    }
    left
}

fn count(text: &str) -> u64 {
    text.chars().count() as u64
}

/// The first `chars` characters.
fn before(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(index, _)| index);
    text.get(..end).unwrap_or(text)
}

/// All but the first `chars` characters.
fn behind(text: &str, chars: u64) -> &str {
    let chars = usize::try_from(chars).unwrap_or(usize::MAX);
    text.char_indices().nth(chars).and_then(|(index, _)| text.get(index..)).unwrap_or_default()
}
