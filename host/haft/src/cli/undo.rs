//! `haft sessions undo` and `/undo`: says what was put back, what was not and why, and what nobody keeps.

use std::path::Path;

use clap::Args;

use super::Exit;
use super::common::Common;
use super::conversation::SessionName;
use super::dialogue::hinted;
use super::terminal::{DIM, Terminal};
use haft_core::report::plain;
use haft_core::undo::{Refusal, Undone, Which};

/// Paths and calls that are named, each; more are counted.
const MAX_NAMED: usize = 50;

#[derive(Debug, Args)]
#[command(after_help = "\
Files that plugins changed, the built-in `edit` and `write` among them, are put back as they were before the last prompt
that changed some. A file that was changed since is left as it is and named. What `bash`, commands and MCP servers did is not
undone: their calls are named.

Examples:
  haft sessions undo                     the last changes of the newest session of this program in this folder
  haft sessions undo 3f9ac801 --all")]
pub(super) struct Undo {
    /// The session: its id or the beginning of it, or `last`, the newest of this program in this folder
    #[arg(value_name = "ID", default_value = "last")]
    session: SessionName,
    /// Undo all that the session changed
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

/// Says what came of it; `None`: nothing is kept.
pub(super) fn tell(undone: Option<&Undone>, terminal: Terminal) {
    let nothing = Undone::default();
    let Undone { restored, refused, uncovered } = undone.unwrap_or(&nothing);
    if restored.is_empty() && refused.is_empty() {
        terminal.message("nothing is left to undo in this session");
    }
    for path in restored.iter().take(MAX_NAMED) {
        terminal.message(format_args!("as it was: {}", shown(path)));
    }
    more(restored.len(), "paths", terminal);
    for Refusal { path, why } in refused.iter().take(MAX_NAMED) {
        terminal.warning(&format!("`{}` {why}", shown(path)));
    }
    more(refused.len(), "paths", terminal);
    if !uncovered.is_empty() {
        terminal.message(format_args!("{DIM}not undone, since nobody keeps what these changed:{DIM:#}"));
    }
    for what in uncovered.iter().take(MAX_NAMED) {
        terminal.message(format_args!("{DIM}  {}{DIM:#}", plain(what)));
    }
    more(uncovered.len(), "calls", terminal);
}

fn more(all: usize, what: &str, terminal: Terminal) {
    if all > MAX_NAMED {
        terminal.message(format_args!("and {} {what} more", all - MAX_NAMED));
    }
}

fn shown(path: &Path) -> String {
    plain(&path.display().to_string())
}
