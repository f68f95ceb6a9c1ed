//! `read`: the text of one file, a page at a time. Holds at most the shown page in memory.

use std::fs::{self, File};
use std::num::NonZero;
use std::path::Path;
use std::time::{Duration, Instant};

use haft_plugin::{Context, Error, Hints, Output, Tool};

use crate::page::{self, Page, Position};
use crate::problem::Action;
use crate::target;

/// Characters of one answer: what a model can make use of at a time.
const MAX_CHARS: usize = 50_000;

/// How long a place is looked for: a third less than a call has by default, so that the answer can say how far it came.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Reads a text file. Shows at most 50000 characters; offset and column reach the rest.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Read {
    /// Path of the file: absolute, relative to the workspace, or beginning with ~.
    file_path: String,
    /// Line to start at, counted from 1.
    offset: Option<NonZero<u64>>,
    /// How many lines to read.
    limit: Option<NonZero<u64>>,
    /// Character of the first line to start at, counted from 1. For lines too long to show at once.
    column: Option<NonZero<u64>>,
}

impl Tool for Read {
    const NAME: &str = "read";
    const HINTS: Hints = Hints::READ_ONLY;

    fn call(self, context: &Context) -> Result<Output, Error> {
        let path = context.path(&self.file_path);
        let (file, bytes) = open(&path)?;
        let from = Position {
            line: self.offset.map_or(1, NonZero::get),
            column: self.column.map_or(1, NonZero::get),
        };
        let deadline = Instant::now() + MAX_TIME;
        let page = page::read(file, from, self.limit.map(NonZero::get), MAX_CHARS, deadline)
            .map_err(|error| Action::Read.failed(&path, &error))?;
        check(&page, &path, from, bytes)?;
        Ok(show(page, bytes).into())
    }
}

/// Opens a regular file and says how many bytes it has. Anything else is not even opened: that
/// alone can wait for ever.
fn open(path: &Path) -> Result<(File, u64), Error> {
    let failed = |error| Action::Read.failed(path, &error);
    let metadata = fs::metadata(path).map_err(failed)?;
    target::check_is_file(Action::Read, path, &metadata)?;
    Ok((File::open(path).map_err(failed)?, metadata.len()))
}

fn check(page: &Page, path: &Path, from: Position, bytes: u64) -> Result<(), Error> {
    if page.binary {
        return Err(Action::Read.cannot(path, format!("it is a binary file of {bytes} bytes, and no text")));
    }
    if page.gave_up {
        return Err(Action::Read.cannot(path, too_far(page, from, bytes)));
    }
    if from.line > page.last_line.max(1) {
        let (line, path) = (from.line, path.display());
        let last = page.last_line;
        return Err(Error::invalid(format!(
            "`offset` {line} is past the end: the last line of `{path}` is {last}"
        )));
    }
    if page.missed_column {
        let (Position { line, column }, path) = (from, path.display());
        return Err(Error::invalid(format!("`column` {column} is past the end of line {line} of `{path}`")));
    }
    Ok(())
}

fn too_far(page: &Page, Position { line, column }: Position, bytes: u64) -> String {
    let (reached, seconds) = (page.last_line, MAX_TIME.as_secs());
    format!(
        "line {line}, column {column} of its {bytes} bytes was not reached in {seconds} s, which went as far as line \
         {reached}; take out the part that matters, for example with `tail -c` or `grep`, and read that"
    )
}

/// The text, and below it what a reader must know about it.
fn show(page: Page, bytes: u64) -> String {
    let Page { text, shown, total, uncounted, next, replaced, .. } = page;
    let of = if uncounted { format!(" of a file of {bytes} bytes") } else { String::new() };
    let more = if uncounted { "more than " } else { "" };
    let truncated = next.map_or_else(String::new, |Position { line, column }| {
        format!(
            "\n... (output truncated: {more}{total} total chars, showing first {shown}{of}); \
             to read on: offset {line}, column {column}"
        )
    });
    let invalid = match replaced {
        0 => String::new(),
        _ => format!("\n... (not valid UTF-8: {replaced} invalid sequences are shown as \u{fffd})"),
    };
    text + &truncated + &invalid
}
