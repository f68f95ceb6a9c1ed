//! Standard output and standard error. Refuses to write anything to a terminal that was not laid out for it, and to
//! change a byte of data that goes anywhere else, but for secrets.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::LazyLock;

use anstream::{AutoStream, ColorChoice};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::layout::{Lines, json, laid_out};
use super::style::written;
use haft_core::secret::Redactor;

/// What this process leaves out of all it prints: one for both streams and the log.
pub(super) static REDACTOR: LazyLock<Redactor> = LazyLock::new(Redactor::of_environment);

/// The variable that overrides the width of the terminal.
const COLUMNS: &str = "COLUMNS";

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// Standard output.
    Data,
    /// Standard error. Whatever it goes to, a person reads it: it is always neutralised.
    Messages,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What haft lays out.
    Page,
    /// Foreign text.
    Answer,
    /// What is not to be broken.
    Whole,
    /// JSON.
    Json,
}

impl Output {
    /// Writes a text; where it does not end its line, that is ended.
    pub(super) fn line(self, text: &str, kind: Kind) -> io::Result<()> {
        let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
        self.write(&format!("{text}{end}"), kind)
    }

    /// Writes a part of a text.
    pub(super) fn piece(self, text: &str) -> io::Result<()> {
        self.write(text, Kind::Whole)
    }

    /// Writes a prompt, whose answer goes on the same line.
    pub(super) fn ask(self, prompt: &str) -> io::Result<()> {
        self.write(prompt, Kind::Page)
    }

    /// Columns, if it is a terminal that tells.
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

/// Whether nobody can read what haft prints any more: a pipe or socket whose other end is closed.
pub(in crate::cli) fn reader_is_gone() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let asked = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    asked.is_ok() && polled.iter().any(|one| one.revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

fn columns(output: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(output).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// A reader that has seen enough (`haft tools | head`) is not a failure.
fn send(mut output: impl Write, text: &str) -> io::Result<()> {
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
