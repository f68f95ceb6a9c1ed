//! Standard output and standard error. A terminal receives only text that was laid out for it; other outputs
//! receive data byte for byte, except redacted secrets.

use std::io::{self, IsTerminal, Write};
use std::iter::Peekable;
use std::os::fd::AsFd;
use std::sync::LazyLock;

use anstream::{AutoStream, ColorChoice};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use unicode_width::UnicodeWidthChar;

use super::style::{Part, parts, written};
use haft_core::report::is_hidden;
use haft_core::secret::Redactor;

/// The redactor of all output of this process: both streams and the log.
pub(super) static REDACTOR: LazyLock<Redactor> = LazyLock::new(Redactor::of_environment);

/// The variable that overrides the width of the terminal.
const COLUMNS: &str = "COLUMNS";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Data,
    /// Standard error. A person reads it, whatever its target is: it is always neutralised.
    Messages,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text that haft laid out.
    Page,
    /// Third-party text.
    Answer,
    /// Text whose lines are not broken.
    Whole,
    Json,
}

impl Output {
    /// Writes a text with a final newline.
    pub(super) fn line(self, text: &str, kind: Kind) -> io::Result<()> {
        let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
        self.write(&format!("{text}{end}"), kind)
    }

    pub(super) fn piece(self, text: &str) -> io::Result<()> {
        self.write(text, Kind::Whole)
    }

    /// Writes a prompt. The answer follows on the same line.
    pub(super) fn ask(self, prompt: &str) -> io::Result<()> {
        self.write(prompt, Kind::Page)
    }

    /// Returns the columns of the terminal, if they are known.
    pub(super) fn width(self) -> Option<usize> {
        if !self.is_terminal() {
            return None;
        }
        let declared = std::env::var(COLUMNS).ok().and_then(|columns| columns.trim().parse().ok());
        declared.filter(|columns| *columns > 0).or_else(|| match self {
            Self::Data => columns(io::stdout()),
            Self::Messages => columns(io::stderr()),
        })
    }

    fn is_terminal(self) -> bool {
        match self {
            Self::Data => io::stdout().is_terminal(),
            Self::Messages => io::stderr().is_terminal(),
        }
    }

    fn is_coloured(self) -> bool {
        let choice = match self {
            Self::Data => AutoStream::choice(&io::stdout()),
            Self::Messages => AutoStream::choice(&io::stderr()),
        };
        choice != ColorChoice::Never
    }

    fn write(self, text: &str, kind: Kind) -> io::Result<()> {
        let text = self.laid_out(&REDACTOR.redact(text), kind);
        match self {
            Self::Data => send(io::stdout().lock(), &text),
            Self::Messages => send(io::stderr().lock(), &text),
        }
    }

    fn laid_out(self, text: &str, kind: Kind) -> String {
        let coloured = self.is_coloured();
        if self == Self::Data && !self.is_terminal() {
            return written(text, coloured);
        }
        let lines = match (kind, self.width()) {
            (Kind::Json, _) => return json(text),
            (Kind::Whole, _) | (_, None) => Lines::Whole,
            (Kind::Answer, Some(width)) => Lines::Broken(width),
            (Kind::Page, Some(width)) => Lines::SetIn(width),
        };
        laid_out(text, lines, coloured)
    }
}

/// Returns whether the reader of standard output is gone.
pub(in crate::cli) fn reader_is_gone() -> bool {
    is_hung_up(&io::stdout())
}

/// Returns whether the other end of a pipe or socket is closed.
pub(in crate::cli) fn is_hung_up(end: &impl AsFd) -> bool {
    // A hang-up is always reported, without a request for it.
    let mut polled = [PollFd::new(end, PollFlags::empty())];
    let asked = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    asked.is_ok() && polled.iter().any(|one| one.revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

fn columns(output: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(output).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Writes a text. A reader that has closed its end (`haft tools | head`) is not an error.
fn send(mut output: impl Write, text: &str) -> io::Result<()> {
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

// Text for a terminal. Characters that would control the terminal, hide text, or change the writing direction are
// escaped (`\u{202e}`), so that the user sees them. Lines are broken at the terminal's width.

/// Columns between tab stops.
const TAB: usize = 8;

/// Default indent of a continued line, in columns.
const INDENT: usize = 2;

/// Minimum width in columns for broken lines. Narrower text would be unreadable.
const MIN_WIDTH: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lines {
    /// No breaks: the terminal breaks lines.
    Whole,
    /// Breaks between words, with a hanging indent: third-party text.
    Broken(usize),
    /// Breaks between words, with the rest indented: text that haft laid out.
    SetIn(usize),
}

pub(super) fn laid_out(text: &str, lines: Lines, coloured: bool) -> String {
    let mut layout = Layout::new(lines, coloured);
    let mut before = None;
    let mut parts = parts(text).peekable();
    while let Some(part) = parts.next() {
        match part {
            Part::Column => layout.column_here(),
            Part::Style(codes) => layout.style(codes),
            Part::Character('\r') if parts.peek() == Some(&Part::Character('\n')) => {}
            Part::Character('\n') => layout.end_line(),
            Part::Character(c) => {
                if is_shown(before, c, &mut parts) {
                    layout.character(c, before);
                } else {
                    c.escape_default().for_each(|c| layout.character(c, None));
                }
                before = Some(c);
            }
        }
    }
    layout.out
}

/// Escapes a JSON text for a terminal, in the syntax of JSON.
pub(super) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || !is_hidden(c) {
            out.push(c);
        } else {
            out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

/// Returns whether a character is written unescaped. A zero-width joiner is, between two emoji.
fn is_shown<'a>(before: Option<char>, c: char, rest: &mut Peekable<impl Iterator<Item = Part<'a>>>) -> bool {
    match c {
        '\t' => true,
        '\u{200d}' => {
            let joins = matches!(rest.peek(), Some(Part::Character(after)) if is_picture(*after));
            joins && before.is_some_and(|before| is_picture(before) || before == '\u{fe0f}')
        }
        c => !is_hidden(c),
    }
}

fn is_picture(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

struct Layout {
    lines: Lines,
    coloured: bool,
    out: String,
    /// Columns of the present line.
    column: usize,
    /// Whether the present line has only blanks.
    is_start: bool,
    /// The indent of continued lines.
    indent: usize,
    /// The end of the last blank that allows a break: bytes of `out`, and columns.
    blank: Option<(usize, usize)>,
    /// Whether the line was broken at a blank. Further blanks are then skipped.
    skips: bool,
}

impl Layout {
    fn new(lines: Lines, coloured: bool) -> Self {
        let (out, blank) = (String::new(), None);
        let mut layout =
            Self { lines, coloured, out, column: 0, is_start: true, indent: 0, blank, skips: false };
        layout.indent = layout.own_indent();
        layout
    }

    /// Returns the columns of the terminal. `None` if lines are not broken.
    fn width(&self) -> Option<usize> {
        match self.lines {
            Lines::Whole => None,
            Lines::Broken(width) | Lines::SetIn(width) => Some(width.max(MIN_WIDTH)),
        }
    }

    fn own_indent(&self) -> usize {
        if matches!(self.lines, Lines::SetIn(_)) { INDENT } else { 0 }
    }

    fn end_line(&mut self) {
        self.out.push('\n');
        (self.column, self.is_start, self.blank, self.skips) = (0, true, None, false);
        self.indent = self.own_indent();
    }

    fn style(&mut self, codes: &str) {
        if self.coloured {
            self.out.push('\u{1b}');
            self.out.push_str(codes);
        }
    }

    /// Indents continued lines to the present column, unless that leaves too little room.
    fn column_here(&mut self) {
        if self.width().is_some_and(|width| self.column <= width / 2) {
            self.indent = self.column;
        }
    }

    fn character(&mut self, c: char, before: Option<char>) {
        let is_blank = matches!(c, ' ' | '\t');
        if self.skips && is_blank {
            return;
        }
        if std::mem::take(&mut self.skips) {
            self.begin_continued();
        }
        let columns = self.columns(c, before);
        if let Some(width) = self.width()
            && self.column + columns > width
        {
            if is_blank {
                self.skips = true;
                return;
            }
            self.make_room(columns, width);
        }
        self.put(c, columns);
    }

    fn put(&mut self, c: char, columns: usize) {
        self.out.push(c);
        self.column += columns;
        match c {
            ' ' | '\t' if !self.is_start => self.blank = Some((self.out.len(), self.column)),
            // A blank at the beginning of a line indents its continued lines further.
            ' ' if self.own_indent() > 0 => self.indent = self.column + INDENT,
            ' ' | '\t' => {}
            _ => self.is_start = false,
        }
    }

    /// Breaks the line at its last blank, or here if there is none.
    fn make_room(&mut self, columns: usize, width: usize) {
        self.indent = self.indent.min(width / 2);
        let rest = self.blank.take().map(|(at, column)| (at, self.column.saturating_sub(column)));
        // With an indent, a long word may have less room on the next line.
        if let Some((at, columns)) = rest.filter(|(_, columns)| self.indent + columns <= width) {
            let rest = self.out.split_off(at.min(self.out.len()));
            self.out.truncate(self.out.trim_end_matches([' ', '\t']).len());
            self.begin_continued();
            self.out.push_str(&rest);
            self.column += columns;
        }
        if self.column + columns > width {
            self.begin_continued();
        }
    }

    fn begin_continued(&mut self) {
        let width = self.width().unwrap_or(usize::MAX);
        self.indent = self.indent.min(width / 2);
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', self.indent));
        (self.column, self.blank, self.is_start) = (self.indent, None, false);
    }

    /// Returns the columns of a character, rounded up if they are uncertain.
    fn columns(&self, c: char, before: Option<char>) -> usize {
        match c {
            '\t' => TAB - self.column % TAB,
            // The variation selector turns a symbol into an emoji with two columns.
            '\u{fe0f}' => usize::from(before.and_then(UnicodeWidthChar::width) == Some(1)),
            c => c.width().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::cli::terminal::style::{Column, HEAD};

    /// S13: control and invisible characters are shown as escapes.
    #[test]
    fn what_is_not_to_be_sent_is_shown() {
        let sent = |text: &str| laid_out(text, Lines::Whole, true);
        assert_eq!(sent("a\u{1b}[2Jb\r\nc\td\u{9b}e\rf\0"), "a\\u{1b}[2Jb\nc\td\\u{9b}e\\rf\\u{0}");
        assert_eq!(
            sent("\u{202e}x\u{2066}y\u{200b}z\u{e0041}\u{fdd0}"),
            r"\u{202e}x\u{2066}y\u{200b}z\u{e0041}\u{fdd0}"
        );
        assert_eq!(sent("größe\u{301} 👩\u{200d}👧 字"), "größe\u{301} 👩\u{200d}👧 字");
        assert_eq!(sent("a\u{200d}b"), r"a\u{200d}b");
        assert_eq!(sent(&format!("{HEAD}a{HEAD:#}")), "\u{1b}[1ma\u{1b}[0m");
        assert_eq!(json("{\"a\": \"\u{9b}\u{e0041}é\"}"), "{\"a\": \"\\u009b\\udb40\\udc41é\"}");
    }

    /// C13: lines are broken between words.
    #[test]
    fn lines_are_broken_between_words() {
        let page = |text: &str| laid_out(text, Lines::SetIn(20), false);
        assert_eq!(page("one two three four five six\n"), "one two three four\n  five six\n");
        assert_eq!(
            page(&format!("  name  {Column}one two three four")),
            "  name  one two\n        three four"
        );
        assert_eq!(page("exactly twenty wide.\nx"), "exactly twenty wide.\nx");
        assert_eq!(page("exactly twenty wide.   x"), "exactly twenty wide.\n  x");
        let answer = |text: &str| laid_out(text, Lines::Broken(16), false);
        assert_eq!(answer("0123456789abcdef0123"), "0123456789abcdef\n0123");
        assert_eq!(answer("字字字字字字字字字"), "字字字字字字字字\n字");
    }

    proptest! {
        /// C13: no line of a layout is too wide, and no word is lost.
        #[test]
        fn no_line_is_too_wide(text in "([a-z 字\u{202e}👩\u{fe0f}\u{1b}-]{0,60}\n?){0,4}", width in 16_usize..50) {
            for lines in [Lines::Broken(width), Lines::SetIn(width)] {
                let laid = laid_out(&text, lines, true);
                for line in laid.lines() {
                    prop_assert!(line.width() <= width, "{:?}", line);
                }
                let bare = |text: &str| text.replace([' ', '\n'], "");
                prop_assert_eq!(bare(&laid), bare(&laid_out(&text, Lines::Whole, true)));
            }
        }
    }
}
