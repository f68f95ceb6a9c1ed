//! How wide a terminal is. A pipe has no width, and what goes into one is broken by nobody.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use super::Terminal;

/// Narrower than this nothing can be set in columns.
const LEAST: u16 = 20;

impl Terminal {
    /// Columns of the terminal that talk goes to; `None` where it is none.
    pub(in crate::cli) fn talk_columns(self) -> Option<usize> {
        columns(io::stderr())
    }

    /// The same of data.
    pub(in crate::cli) fn data_columns(self) -> Option<usize> {
        columns(io::stdout())
    }
}

fn columns(stream: impl AsFd + IsTerminal) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.max(LEAST).into())
}
