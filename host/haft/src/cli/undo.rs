//! `haft session undo` and `/undo`: report the restored files, the skipped files with the reason, and changes that
//! haft does not record.

use std::path::Path;

use clap::Args;

use super::Exit;
use super::common::Common;
use super::conversation::SessionName;
use super::dialogue::hinted;
use super::terminal::{DIM, Terminal};
use haft_core::report::plain;
use haft_core::undo::{Refusal, Undone, Which};

/// Maximum number of named paths, and of named calls. Further ones are counted.
const MAX_NAMED: usize = 50;

#[derive(Debug, Args)]
#[command(after_help = "\
The verb restores the files that plugins (also the built-in `edit` and `write`) changed in the last prompt with \
changes. A file that was edited later is not restored, and is listed. Changes by `bash`, commands and MCP \
servers are not undone; their calls are listed.

Examples:
  haft session undo                     the last changes of the newest session of this program in this folder
  haft session undo 3f9ac801 --all")]
pub(super) struct Undo {
    /// The session: its id, the start of its id, or `last` for the newest session of this program in this folder
    #[arg(value_name = "ID", default_value = "last")]
    session: SessionName,
    /// Undo all changes of the session
    #[arg(long)]
    all: bool,
}

impl Undo {
    pub(super) fn execute(&self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let saved = self.session.find(common)?;
        let undone = saved.undo(if self.all { Which::All } else { Which::Last }).map_err(hinted)?;
        let is_whole = undone.as_ref().is_none_or(|undone| undone.refused.is_empty());
        tell(undone.as_ref(), terminal);
        Ok(if is_whole { Exit::Success } else { Exit::Tool })
    }
}

/// Prints the result. `None` means that the session has no stored files.
pub(super) fn tell(undone: Option<&Undone>, terminal: Terminal) {
    for line in lines(undone) {
        match line {
            Line::Told(text) => terminal.message(text),
            Line::Refused(text) => terminal.warning(&text),
            Line::Uncovered(text) => terminal.message(format_args!("{DIM}{text}{DIM:#}")),
        }
    }
}

/// Returns the result, for a user without a terminal.
pub(super) fn text(undone: Option<&Undone>) -> String {
    let lines = lines(undone).into_iter().map(|line| match line {
        Line::Told(text) | Line::Refused(text) | Line::Uncovered(text) => text,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A line of the result.
enum Line {
    Told(String),
    Refused(String),
    Uncovered(String),
}

fn lines(undone: Option<&Undone>) -> Vec<Line> {
    let nothing = Undone::default();
    let Undone { restored, refused, uncovered } = undone.unwrap_or(&nothing);
    let mut lines = Vec::new();
    if restored.is_empty() && refused.is_empty() {
        lines.push(Line::Told("this session has nothing to undo".to_owned()));
    }
    lines.extend(named(restored, "paths", |path| Line::Told(format!("restored: {}", shown(path)))));
    let refusal = |Refusal { path, why }: &Refusal| Line::Refused(format!("`{}` {why}", shown(path)));
    lines.extend(named(refused, "paths", refusal));
    if !uncovered.is_empty() {
        lines.push(Line::Uncovered("not undone, because haft saves no files for these calls:".to_owned()));
    }
    lines.extend(named(uncovered, "calls", |what| Line::Uncovered(format!("  {}", plain(what)))));
    lines
}

/// Returns a line for each of the first items, and a line with the number of the others.
fn named<T>(all: &[T], what: &str, line: impl Fn(&T) -> Line) -> Vec<Line> {
    let more = all.len().saturating_sub(MAX_NAMED);
    let counted = (more > 0).then(|| Line::Told(format!("and {more} {what} more")));
    all.iter().take(MAX_NAMED).map(line).chain(counted).collect()
}

fn shown(path: &Path) -> String {
    plain(&path.display().to_string())
}
