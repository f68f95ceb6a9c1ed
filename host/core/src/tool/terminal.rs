//! Renders a program's output as a terminal would show it: an overwritten line has its last state, and colours,
//! titles and other escape sequences are removed. Has no width and wraps no line.
//!
//! The last lines stay in memory, because a program may move up and rewrite them. A line end also ends an
//! incomplete escape sequence, so that a sequence without an end hides at most its own line.

use std::collections::VecDeque;
use std::iter::repeat_with;

use memchr::{memchr3, memrchr_iter};
use vte::{Params, Parser, Perform};

/// Number of lines that a program can move up: those of a screen.
const HEIGHT: usize = 50;

/// Maximum number of characters of a line that can be overwritten; the beginning of a longer line is shown
/// unchanged.
const MAX_LINE: usize = 4096;

/// Moves back by a character.
const BACKSPACE: u8 = 0x08;

/// Ends a sequence that was begun: `CAN`.
const CANCEL: &[u8] = b"\x18";

/// A terminal of which only the lines are seen.
#[derive(Default)]
pub(super) struct Terminal {
    parser: Parser,
    /// Whether the parser may be within a sequence.
    is_begun: bool,
    screen: Screen,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal").field("screen", &self.screen).finish_non_exhaustive()
    }
}

impl Terminal {
    /// Processes more output. Returns the text that no program can change any more.
    pub(super) fn push(&mut self, text: &str) -> String {
        // Most output has no control sequences, and may be very large.
        if !self.is_begun
            && self.screen.is_at_end()
            && memchr3(0x1b, b'\r', BACKSPACE, text.as_bytes()).is_none()
        {
            self.screen.append(text);
        } else {
            self.steer(text);
        }
        std::mem::take(&mut self.screen.done)
    }

    fn steer(&mut self, text: &str) {
        for line in text.split_inclusive('\n') {
            self.parser.advance(&mut self.screen, line.trim_end_matches('\n').as_bytes());
            self.is_begun = !line.ends_with('\n');
            if !self.is_begun {
                self.parser.advance(&mut self.screen, CANCEL);
                self.screen.end_line();
            }
        }
    }

    /// Returns the rest of the output at its end.
    pub(super) fn end(&mut self) -> String {
        self.screen.let_go();
        std::mem::take(&mut self.screen.done)
    }
}

#[derive(Debug, Default)]
struct Line {
    cells: Vec<char>,
    /// Whether the line was overwritten or erased, so that trailing blanks result from that.
    is_redrawn: bool,
}

/// The changeable lines, and the position of the cursor in them.
#[derive(Debug, Default)]
struct Screen {
    lines: VecDeque<Line>,
    row: usize,
    column: usize,
    /// A place of the cursor that is to be returned to.
    saved: (usize, usize),
    /// Whether the cursor was just moved to the first line, as before a screen is redrawn.
    is_home: bool,
    /// Final lines that are not taken yet.
    done: String,
}

impl Line {
    fn put(&mut self, column: usize, c: char) {
        let is_written = self.cells.len() > column;
        if self.cells.len() < column {
            self.cells.resize(column, ' ');
        }
        match self.cells.get_mut(column) {
            Some(cell) => *cell = c,
            None => self.cells.push(c),
        }
        self.is_redrawn |= is_written;
    }

    fn clear(&mut self) {
        self.cells.clear();
        self.is_redrawn = true;
    }

    fn show(&self, into: &mut String) {
        let start = into.len();
        into.extend(&self.cells);
        if self.is_redrawn {
            let shown = into.trim_end_matches(' ').len();
            into.truncate(shown.max(start));
        }
    }
}

impl Screen {
    /// Returns the line that the cursor is in.
    fn line(&mut self) -> Option<&mut Line> {
        if self.lines.len() <= self.row {
            self.lines.resize_with(self.row + 1, Line::default);
        }
        self.lines.get_mut(self.row)
    }

    /// Returns whether the cursor is after all other text.
    fn is_at_end(&self) -> bool {
        let length = self.lines.get(self.row).map_or(0, |line| line.cells.len());
        self.row + 1 >= self.lines.len() && self.column == length
    }

    /// Adds text that steers nothing, at the end.
    fn append(&mut self, text: &str) {
        let held = memrchr_iter(b'\n', text.as_bytes()).nth(HEIGHT).map_or(0, |end| end + 1);
        let (above, held) = text.split_at_checked(held).unwrap_or(("", text));
        if !above.is_empty() {
            self.let_go();
            self.done.push_str(above);
        }
        for line in held.split_inclusive('\n') {
            let own = line.trim_end_matches('\n');
            if self.column + own.len() > MAX_LINE {
                self.let_go();
                self.done.push_str(own);
            } else if let Some(line) = self.line() {
                line.cells.extend(own.chars());
                self.column = line.cells.len();
            }
            if line.ends_with('\n') {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        self.column = 0;
        self.row += 1;
        if self.row >= HEIGHT {
            self.row -= 1;
            if let Some(line) = self.lines.pop_front() {
                line.show(&mut self.done);
            }
            self.done.push('\n');
        }
    }

    /// Makes all held text unchangeable.
    fn let_go(&mut self) {
        let count = (self.row + 1).max(self.lines.len());
        for (index, line) in
            self.lines.drain(..).map(Some).chain(repeat_with(|| None)).take(count).enumerate()
        {
            if index > 0 {
                self.done.push('\n');
            }
            if let Some(line) = line {
                line.show(&mut self.done);
            }
        }
        (self.row, self.column) = (0, 0);
    }

    /// Begins an empty screen.
    fn clear(&mut self) {
        let column = self.column;
        self.let_go();
        if !self.done.is_empty() && !self.done.ends_with('\n') {
            self.done.push('\n');
        }
        self.column = column;
    }

    fn go(&mut self, row: usize, column: usize) {
        self.row = row.min(HEIGHT - 1);
        self.column = column.min(MAX_LINE);
        self.is_home = false;
    }

    /// Erases below the cursor, above it, or all: `J`. A cleared screen is kept, as terminals let it scroll away.
    fn erase_lines(&mut self, which: u16) {
        match which {
            0 if self.is_home => return self.clear(),
            0 => self.lines.truncate(self.row + 1),
            1 => self.lines.iter_mut().take(self.row).for_each(Line::clear),
            _ => return self.clear(),
        }
        self.erase_in_line(which);
    }

    /// Erases the line after the cursor, before it, or completely: `K`.
    fn erase_in_line(&mut self, which: u16) {
        let column = self.column;
        let Some(line) = self.line() else { return };
        match which {
            0 => line.cells.truncate(column),
            1 => line.cells.iter_mut().take(column + 1).for_each(|cell| *cell = ' '),
            _ => line.cells.clear(),
        }
        line.is_redrawn = true;
    }
}

impl Perform for Screen {
    fn print(&mut self, c: char) {
        if self.column >= MAX_LINE {
            self.let_go();
        }
        let column = self.column;
        if let Some(line) = self.line() {
            line.put(column, c);
        }
        self.column += 1;
        self.is_home = false;
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' => self.column = 0,
            BACKSPACE => self.column = self.column.saturating_sub(1),
            0x18 | 0x1a => {}
            // Other control characters are omitted.
            byte => self.print(char::from(byte)),
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _: bool, action: char) {
        if !intermediates.is_empty() {
            return;
        }
        let mut numbers = params.iter().filter_map(|param| param.first().copied());
        let (first, second) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let (count, (row, column)) = (usize::from(first.max(1)), (self.row, self.column));
        match action {
            'A' => self.go(row.saturating_sub(count), column),
            'B' => self.go(row + count, column),
            'C' => self.go(row, column + count),
            'D' => self.go(row, column.saturating_sub(count)),
            'E' => self.go(row + count, 0),
            'F' => self.go(row.saturating_sub(count), 0),
            'G' => self.go(row, count - 1),
            'd' => self.go(count - 1, column),
            'H' | 'f' => {
                self.go(count - 1, usize::from(second.max(1)) - 1);
                self.is_home = (self.row, self.column) == (0, 0);
            }
            'J' => self.erase_lines(first),
            'K' => self.erase_in_line(first),
            's' => self.saved = (row, column),
            'u' => self.go(self.saved.0, self.saved.1),
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _: bool, byte: u8) {
        match byte {
            _ if !intermediates.is_empty() => {}
            b'7' => self.saved = (self.row, self.column),
            b'8' => self.go(self.saved.0, self.saved.1),
            b'D' | b'E' => self.end_line(),
            b'M' => self.go(self.row.saturating_sub(1), self.column),
            b'c' => self.clear(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
