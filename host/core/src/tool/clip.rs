//! Text of bounded length: keeps the start and the end of an output and counts the omitted characters. Limits count
//! characters and include the notice. Stores at most a head and a tail, regardless of the length of the output.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::terminal::Terminal;

/// Which part of a text survives its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The beginning, then the notice: for text that is read from the top (files, pages).
    Head,
    /// Beginning and end with the notice between: for logs, whose errors are at the end.
    Ends,
    /// The notice, then the end: for screens.
    Tail,
}

/// Returns `text`, cut to at most `limit` characters with a notice of how many there were.
pub fn clip(text: &str, limit: usize, keep: Keep) -> String {
    // No text has more characters than bytes.
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut clipper = Clipper::new(limit, keep);
    clipper.push(text.as_bytes());
    clipper.render(limit)
}

/// Takes an output piece by piece and stores the parts that [`clip`] would show of the complete output.
///
/// Stores at most `limit` characters of the head, as many of the tail and one piece: at most `8 * limit` bytes and
/// 16 KiB.
#[derive(Debug)]
pub struct Clipper {
    keep: Keep,
    limit: usize,
    total: usize,
    head: String,
    /// Characters that the head still takes.
    room: usize,
    tail: Tail,
    /// The beginning of a character whose other bytes have not arrived; at most three bytes.
    partial: Vec<u8>,
    /// The terminal whose rendered lines replace the raw output, if there is one.
    terminal: Option<Box<Terminal>>,
}

impl Clipper {
    /// Creates a clipper for at most `limit` characters.
    pub fn new(limit: usize, keep: Keep) -> Self {
        let room = if keep == Keep::Tail { 0 } else { limit };
        let tail = Tail::new(if keep == Keep::Head { 0 } else { limit });
        Self { keep, limit, total: 0, head: String::new(), room, tail, partial: Vec::new(), terminal: None }
    }

    /// Returns the clipper for a program's output: keeps the lines that a terminal would show. Holds at most 1 MiB
    /// more.
    #[must_use]
    pub fn as_terminal(self) -> Self {
        Self { terminal: Some(Box::default()), ..self }
    }

    /// Adds bytes, replacing invalid UTF-8, and returns them as text to be shown live. A character may arrive in two
    /// pushes; it is returned by the second.
    pub fn push<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, str> {
        let text = self.decode(bytes);
        self.add(&text);
        text
    }

    /// Ends the input. An incomplete character counts as invalid.
    pub fn end(&mut self) {
        if !self.partial.is_empty() {
            self.partial.clear();
            self.add(BROKEN);
        }
        if let Some(mut terminal) = self.terminal.take() {
            self.keep(&terminal.end());
        }
    }

    /// Returns the number of characters, complete after the end of the input.
    pub fn total(&self) -> usize {
        self.total + usize::from(!self.partial.is_empty())
    }

    /// Returns the text within `limit` characters, or within the clipper's own limit if that is lower. Ends the
    /// input.
    pub fn render(&mut self, limit: usize) -> String {
        self.end();
        let limit = limit.min(self.limit);
        match self.keep {
            Keep::Tail if self.total <= limit => self.tail.last(self.total),
            Keep::Head | Keep::Ends if self.total <= limit => self.head.clone(),
            Keep::Head => self.render_head(limit),
            Keep::Ends => self.render_ends(limit),
            Keep::Tail => self.render_tail(limit),
        }
    }

    fn render_head(&self, limit: usize) -> String {
        let notice =
            |shown| format!("\n... (output truncated: {} total chars, showing first {shown})", self.total);
        let Some(shown) = room_beside(&notice(limit), limit) else {
            return first(&notice(0), limit).to_owned();
        };
        format!("{}{}", first(&self.head, shown), notice(shown))
    }

    fn render_ends(&self, limit: usize) -> String {
        let notice = |head, tail| {
            let total = self.total;
            format!("\n... (output truncated: {total} total chars, showing first {head} and last {tail})\n")
        };
        let Some(shown) = room_beside(&notice(limit, limit), limit) else {
            return first(&notice(0, 0), limit).to_owned();
        };
        let (head, tail) = (shown - shown / 2, shown / 2);
        format!("{}{}{}", first(&self.head, head), notice(head, tail), self.tail.last(tail))
    }

    fn render_tail(&self, limit: usize) -> String {
        let notice = |cut| format!("[truncated {cut} chars from start]\n");
        let Some(shown) = room_beside(&notice(self.total), limit) else {
            return first(&notice(self.total), limit).to_owned();
        };
        format!("{}{}", notice(self.total - shown), self.tail.last(shown))
    }

    fn decode<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, str> {
        if self.partial.is_empty()
            && let Ok(text) = str::from_utf8(bytes)
        {
            return Cow::Borrowed(text);
        }
        let mut joined = std::mem::take(&mut self.partial);
        joined.extend_from_slice(bytes);
        let mut text = String::with_capacity(joined.len());
        let mut chunks = joined.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            match chunk.invalid() {
                [] => {}
                rest if chunks.peek().is_none() && is_beginning(rest) => self.partial = rest.to_vec(),
                _ => text.push_str(BROKEN),
            }
        }
        Cow::Owned(text)
    }

    fn add(&mut self, text: &str) {
        match &mut self.terminal {
            Some(terminal) => {
                let shown = terminal.push(text);
                self.keep(&shown);
            }
            None => self.keep(text),
        }
    }

    fn keep(&mut self, mut text: &str) {
        while !text.is_empty() {
            let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE));
            self.add_piece(piece);
            text = rest;
        }
    }

    fn add_piece(&mut self, piece: &str) {
        let count = piece.chars().count();
        self.total = self.total.saturating_add(count);
        if self.room > 0 {
            self.head.push_str(first(piece, self.room));
            self.room = self.room.saturating_sub(count);
        }
        self.tail.push(piece, count);
    }
}

/// The replacement for invalid UTF-8.
const BROKEN: &str = "\u{FFFD}";

/// The size of the pieces in which a tail is discarded: large enough that counting and freeing cost little compared
/// to reading, small compared to the stored text.
const PIECE: usize = 16 << 10;

/// The last characters of the pushed text, in pieces, so that no character is scanned twice.
#[derive(Debug)]
struct Tail {
    limit: usize,
    count: usize,
    pieces: VecDeque<(String, usize)>,
}

impl Tail {
    fn new(limit: usize) -> Self {
        Self { limit, count: 0, pieces: VecDeque::new() }
    }

    fn push(&mut self, piece: &str, count: usize) {
        if self.limit == 0 {
            return;
        }
        match self.pieces.back_mut() {
            Some((last, last_count)) if last.len() + piece.len() <= PIECE => {
                last.push_str(piece);
                *last_count += count;
            }
            _ => self.pieces.push_back((piece.to_owned(), count)),
        }
        self.count += count;
        while let Some((_, oldest)) = self.pieces.front()
            && self.count - oldest >= self.limit
        {
            self.count -= oldest;
            self.pieces.pop_front();
        }
    }

    fn last(&self, count: usize) -> String {
        let held: String = self.pieces.iter().map(|(piece, _)| piece.as_str()).collect();
        let skipped = self.count.saturating_sub(count);
        held.get(first(&held, skipped).len()..).unwrap_or_default().to_owned()
    }
}

/// Returns whether more bytes could make a character of these.
fn is_beginning(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Returns the number of characters that a limit leaves beside a notice; `None` if the notice itself does not fit.
fn room_beside(notice: &str, limit: usize) -> Option<usize> {
    limit.checked_sub(notice.chars().count())
}

/// Returns the first `count` characters.
fn first(text: &str, count: usize) -> &str {
    if text.len() <= count {
        return text;
    }
    text.char_indices().nth(count).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests;
