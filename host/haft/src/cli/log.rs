//! `haft log`: what was called, by whose leave, and what came of it. Reads the journal and changes
//! nothing in it.

mod outcome;
mod show;
mod since;

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use self::outcome::is_unfinished;
use self::show::{detail, row};
use self::since::Since;
use super::Exit;
use super::common::Common;
use super::terminal::Terminal;
use crate::program::Dirs;
use haft_core::journal::{self, Followed, Lines, Record};
use haft_core::manifest::ToolPattern;

/// Calls that are shown where nothing is said: a screen or two.
const DEFAULT_LINES: usize = 50;

/// The same before following: what gives an idea.
const DEFAULT_FOLLOWED: usize = 10;

/// How often the journal is looked at while it is followed: soon enough for a person.
const INTERVAL: Duration = Duration::from_millis(200);

/// Calls of an agent that are listed below the one that it answers: more than an agent makes in a task.
const MAX_CHILDREN: usize = 1000;

/// Bytes of output that are printed at once.
const BATCH: usize = 64 << 10;

#[derive(Debug, Args)]
#[command(after_help = "\
The newest call stands last. `-p FILE` or `-p NAME` shows only the calls of that program.

Examples:
  haft log
  haft log 3f9a                    one call in full
  haft log --failed --since 2h
  haft log --tool bash --since '2026-08-01 10:00'
  haft log --json | jq -r 'select(.peak_memory > 50e6) | .tool'")]
pub(super) struct Log {
    /// Show this call in full; the beginning of its id is enough
    id: Option<String>,
    /// Show the last N calls, or `all` [default: 50; all with --since or --json]
    #[arg(short = 'n', long = "lines", value_name = "N")]
    lines: Option<Limit>,
    /// Show calls of tools with these names only; `*` stands for any characters
    #[arg(short, long, value_name = "PATTERN")]
    tool: Vec<ToolPattern>,
    /// Show calls that did not do what was asked only
    #[arg(long)]
    failed: bool,
    /// Show calls since then: `2h`, `3d`, `today`, `yesterday`, `2026-08-01`, `2026-08-01 10:00`
    #[arg(short, long, value_name = "TIME")]
    since: Option<Since>,
    /// Go on showing calls as they end
    #[arg(short, long, conflicts_with = "id")]
    follow: bool,
}

/// How many calls to show.
#[derive(Clone, Copy, Debug)]
enum Limit {
    All,
    Last(usize),
}

impl FromStr for Limit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "all" {
            return Ok(Self::All);
        }
        text.parse().map(Self::Last).map_err(|_| "expected a number or `all`")
    }
}

impl Log {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let directory = Dirs::of_this_machine()?.journal();
        if let Some(id) = &self.id {
            return one(id, &directory, terminal);
        }
        // Before the journal is read, so that nothing is missed in between.
        let followed = self.follow.then(|| Followed::new(&directory)).transpose()?;
        let program = common.program.as_deref();
        let shown = self.list(journal::read(&directory)?, program, terminal)?;
        if let Some(followed) = followed {
            self.follow(followed, shown, program, terminal).await?;
        } else if shown.is_empty() && !terminal.json {
            terminal.message(format_args!("no such calls in the journal `{}`", directory.display()));
        }
        Ok(Exit::Success)
    }

    /// Shows the calls there are, and tells their ids.
    fn list(
        &self,
        mut lines: Lines,
        program: Option<&Path>,
        terminal: Terminal,
    ) -> anyhow::Result<HashSet<String>> {
        let mut printer = Printer::new(terminal);
        let (mut last, mut shown, mut left_out) = (VecDeque::new(), HashSet::new(), 0_usize);
        for record in &mut lines {
            let record = record?;
            if !self.matches_filter(&record, program) {
                continue;
            }
            match self.limit(terminal) {
                Limit::All => {
                    shown.insert(record.id.clone());
                    printer.print(&record)?;
                }
                Limit::Last(count) => {
                    last.push_back(record);
                    if last.len() > count {
                        last.pop_front();
                        left_out += 1;
                    }
                }
            }
        }
        for record in last {
            printer.print(&record)?;
            shown.insert(record.id);
        }
        printer.flush()?;
        if left_out > 0 && self.lines.is_none() && !self.follow {
            terminal.message(format_args!("{left_out} earlier calls; `-n all` shows them"));
        }
        warn(&lines, terminal);
        Ok(shown)
    }

    async fn follow(
        &self,
        mut followed: Followed,
        shown: HashSet<String>,
        program: Option<&Path>,
        terminal: Terminal,
    ) -> anyhow::Result<()> {
        let mut printer = Printer::new(terminal);
        loop {
            for record in followed.ended()? {
                if self.matches_filter(&record, program) && !shown.contains(&record.id) {
                    printer.print(&record)?;
                }
            }
            printer.flush()?;
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn limit(&self, terminal: Terminal) -> Limit {
        let usual = match (self.follow, self.since.is_some() || terminal.json) {
            (true, _) => Limit::Last(DEFAULT_FOLLOWED),
            (false, true) => Limit::All,
            (false, false) => Limit::Last(DEFAULT_LINES),
        };
        self.lines.unwrap_or(usual)
    }

    fn matches_filter(&self, record: &Record, program: Option<&Path>) -> bool {
        let is_tool = self.tool.is_empty() || self.tool.iter().any(|pattern| pattern.matches(&record.tool));
        let is_failed = !self.failed || record.outcome.is_failure() || is_unfinished(record);
        let is_late = self.since.is_none_or(|since| record.time >= since.0);
        is_tool && is_failed && is_late && program.is_none_or(|program| is_of(record, program))
    }
}

/// Whether the call is one of the program with this name or in this file.
fn is_of(record: &Record, program: &Path) -> bool {
    let file = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
    let is_named = record.program.name.as_deref().is_some_and(|name| program.as_os_str() == name);
    is_named || record.program.path.as_deref().is_some_and(|path| Path::new(path) == file)
}

/// Shows one call in full.
fn one(id: &str, directory: &Path, terminal: Terminal) -> anyhow::Result<Exit> {
    let mut lines = journal::read(directory)?;
    let mut found = None;
    for record in &mut lines {
        let record = record?;
        if record.id == id {
            found = Some(record);
            break;
        }
        if record.id.starts_with(id) && found.replace(record).is_some() {
            anyhow::bail!("several calls begin with `{id}`; write more of the id");
        }
    }
    warn(&lines, terminal);
    let Some(record) = found else {
        anyhow::bail!("no call in the journal begins with `{id}`");
    };
    if terminal.json {
        terminal.json(&with_calls(&record, &children(directory, &record)?)?)?;
    } else {
        terminal.data(&detail(&record, &children(directory, &record)?))?;
    }
    Ok(Exit::Success)
}

/// The calls that an agent made to answer `parent`, in order.
fn children(directory: &Path, parent: &Record) -> anyhow::Result<Vec<Record>> {
    let mut children = Vec::new();
    for record in journal::read(directory)? {
        let record = record?;
        if record.parent.as_ref() == Some(&parent.id) && children.len() < MAX_CHILDREN {
            children.push(record);
        }
    }
    Ok(children)
}

/// The record as it is in the journal, with the ids of the calls that an agent made to answer it.
fn with_calls(record: &Record, children: &[Record]) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(record)?;
    if let Some(object) = value.as_object_mut().filter(|_| !children.is_empty()) {
        object.insert("calls".into(), children.iter().map(|child| child.id.as_str()).collect());
    }
    Ok(value)
}

/// Says that there is something in the journal that is none of its lines.
fn warn(lines: &Lines, terminal: Terminal) {
    if lines.broken() > 0 {
        terminal.message(format_args!("{} lines of the journal could not be read", lines.broken()));
    }
}

/// Prints many calls without asking the system for every one.
struct Printer {
    terminal: Terminal,
    text: String,
}

impl Printer {
    fn new(terminal: Terminal) -> Self {
        Self { terminal, text: String::new() }
    }

    fn print(&mut self, record: &Record) -> anyhow::Result<()> {
        self.text += &if self.terminal.json { serde_json::to_string(record)? } else { row(record) };
        self.text.push('\n');
        if self.text.len() > BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.terminal.data(&std::mem::take(&mut self.text))?)
    }
}
