//! `haft session list` and `haft session remove`: list and remove saved sessions.

use crate::cli::common::Common;
use std::str::FromStr;

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::Exit;
use super::terminal::Terminal;
use crate::cli::conversation::SessionName;
use crate::cli::dialogue::hinted;
use haft::program::Dirs;
use haft_agent::provider::Message;
use haft_agent::{End, Restored, Saved};
use haft_core::report::{self, plain};

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

/// The number of sessions to display.
#[derive(Clone, Copy, Debug)]
struct Limit(usize);

impl FromStr for Limit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = (text == "all").then_some(usize::MAX);
        all.or_else(|| text.parse().ok()).map(Self).ok_or("expected a number or `all`")
    }
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
        let left_out = meant.len().saturating_sub(self.lines.map_or(DEFAULT_LINES, |limit| limit.0));
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

/// Returns a time in the time zone of this machine.
pub(super) fn local(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}
