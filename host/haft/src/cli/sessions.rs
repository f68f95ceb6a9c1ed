//! `haft session list`, `haft session remove` and `haft session undo`, also `/undo`: list and remove saved sessions, and report
//! the restored files, the skipped files with the reason, and changes that haft does not record.

use std::path::Path;

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::Exit;
use super::common::Common;
use super::conversation::SessionName;
use super::dialogue::hinted;
use super::log::Limit;
use super::terminal::{DIM, Terminal};
use haft::program::Dirs;
use haft_agent::provider::Message;
use haft_agent::{End, Restored, Saved};
use haft_core::report::{self, plain};
use haft_core::undo::{Refusal, Undone, Which};

/// Default number of displayed sessions: one screen.
const DEFAULT_LINES: usize = 20;

/// Maximum characters of a session's title.
const MAX_TITLE: usize = 60;

#[derive(Debug, Args)]
#[command(after_help = "\
The newest session is last. `haft run --resume ID 'PROMPT'` and `haft chat --resume ID` resume a session, `haft \
session show ID` shows it.

Examples:
  haft session list
  haft session list --here -n all
  haft session list --json | jq -r 'select(.state == \"interrupted\") | .id'")]
pub(super) struct List {
    /// Show the last N sessions, or `all` [default: 20]
    #[arg(short = 'n', long = "lines", value_name = "N")]
    lines: Option<Limit>,
    /// Show only sessions of this program in this folder
    #[arg(long)]
    here: bool,
    /// Show the sessions of called agents too
    #[arg(long)]
    agents: bool,
}

#[derive(Debug, Args)]
pub(super) struct Remove {
    /// The sessions: their ids, or the starts of their ids
    #[arg(value_name = "ID", required = true, add = super::completions::sessions())]
    sessions: Vec<SessionName>,
}

impl List {
    pub(super) fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let dirs = Dirs::of_this_machine()?;
        let mut all = dirs.kept_sessions().all().map_err(hinted)?;
        if self.agents {
            all.extend(dirs.agent_sessions().all().map_err(hinted)?);
            all.sort_by_key(|saved| saved.path().file_name().map(ToOwned::to_owned));
        }
        let begun = common.begun();
        let is_meant = |saved: &Saved| !self.here || saved.begun().is_some_and(|own| own.is_like(&begun));
        let meant: Vec<_> = all.into_iter().filter(is_meant).collect();
        let most = match self.lines.unwrap_or(Limit::Last(DEFAULT_LINES)) {
            Limit::All => usize::MAX,
            Limit::Last(count) => count,
        };
        let left_out = meant.len().saturating_sub(most);
        let mut text = String::new();
        for saved in meant.iter().skip(left_out) {
            match saved.restored() {
                Ok(restored) if terminal.json => text += &(value(saved, &restored).to_string() + "\n"),
                Ok(restored) => text += &row(saved, &restored),
                Err(error) => terminal.warning(&error.to_string()),
            }
        }
        terminal.data(&text)?;
        if meant.is_empty() && !terminal.json {
            terminal.message(format_args!("no sessions in `{}`", dirs.sessions().display()));
        } else if left_out > 0 && self.lines.is_none() && !terminal.json {
            terminal.message(format_args!("{left_out} earlier sessions; `-n all` shows them"));
        }
        Ok(Exit::Success)
    }
}

impl Remove {
    pub(super) fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let found: Vec<_> =
            self.sessions.iter().map(|name| name.find_any(common)).collect::<Result<_, _>>()?;
        for saved in found {
            saved.remove().map_err(hinted)?;
            terminal.message(format_args!("removed {}", saved.id));
        }
        Ok(Exit::Success)
    }
}

fn state(saved: &Saved, restored: &Restored) -> &'static str {
    match &restored.ended {
        _ if saved.is_in_use() => "in use",
        None => "interrupted",
        Some(ended) => ended.end.unwrap_or(End::Failed).name(),
    }
}

fn row(saved: &Saved, restored: &Restored) -> String {
    let (time, state) = (local(restored.changed), state(saved, restored));
    let turns = if restored.turns == 1 { "turn" } else { "turns" };
    let agent = restored.begun.agent.as_ref().map(|agent| format!("agent {agent}"));
    let program = agent.as_deref().or(restored.begun.program.as_deref()).unwrap_or("-");
    format!(
        "{}  {time}  {state:<11}  {:>3} {turns:<5}  {:<12}  {}\n",
        saved.id,
        restored.turns,
        plain(program),
        title(restored)
    )
}

fn value(saved: &Saved, restored: &Restored) -> Value {
    json!({
        "id": saved.id,
        "state": state(saved, restored),
        "changed": restored.changed,
        "turns": restored.turns,
        "model": restored.model,
        "usage": restored.usage,
        "program": restored.begun.program,
        "agent": restored.begun.agent,
        "parent": restored.begun.parent,
        "path": restored.begun.path,
        "folder": restored.begun.folder,
        "title": title(restored),
        "file": saved.path(),
    })
}

/// Returns the title of a session: its first words.
fn title(restored: &Restored) -> String {
    let Some(Message::User(asked)) = restored.messages.first() else { return String::new() };
    shortened(&asked.told())
}

/// Returns the first words of a text, on one line.
pub(super) fn shortened(text: &str) -> String {
    report::shortened(&plain(&text.split_whitespace().collect::<Vec<_>>().join(" ")), MAX_TITLE)
}

pub(super) fn local(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

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
        tell_undone(undone.as_ref(), terminal);
        Ok(if is_whole { Exit::Success } else { Exit::Tool })
    }
}

/// Prints the result. `None` means that the session has no stored files.
pub(super) fn tell_undone(undone: Option<&Undone>, terminal: Terminal) {
    for line in lines(undone) {
        match line {
            Line::Told(text) => terminal.message(text),
            Line::Refused(text) => terminal.warning(&text),
            Line::Uncovered(text) => terminal.message(format_args!("{DIM}{text}{DIM:#}")),
        }
    }
}

/// Returns the result, for a user without a terminal.
pub(super) fn undone_text(undone: Option<&Undone>) -> String {
    let lines = lines(undone).into_iter().map(|line| match line {
        Line::Told(text) | Line::Refused(text) | Line::Uncovered(text) => text,
    });
    lines.collect::<Vec<_>>().join("\n")
}

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
