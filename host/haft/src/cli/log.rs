//! `haft log`: the log of tool calls with approvals and results. Reads the journal and does not change it.

mod show;

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use haft::program::{Ask, Dirs, Options};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};
use serde_json::Value;
use tempfile::TempDir;

use self::show::{Filter, MAX_NAME, MIN_NAME, detail, has_network, name, network, row};
use super::common::Common;
use super::terminal::Terminal;
use super::{Exit, completions, trusted};
use haft_journal::{Followed, Found, Outline, Record, View};
use haft_manifest::ToolPattern;
use haft_manifest::units::parse_duration;
use haft_nats::{Link, Server, fetch};

pub(super) use self::show::grant;

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
#[expect(clippy::struct_excessive_bools, reason = "independent flags of a command line")]
#[command(
    after_help = "The newest call is last. `-p FILE` or `-p NAME` shows only the calls of that program.

Examples:
  haft log
  haft log 3f9a                    one call; with -v its full recorded answer
  haft log --failed --since 2h
  haft log --tool bash --since '2026-08-01 10:00'
  haft log --net                   the network connections of calls
  haft log --json | jq -r 'select(.peak_memory > 50e6) | .tool'"
)]
pub(super) struct Log {
    /// Show this call in full; the start of its id is enough
    #[arg(add = completions::calls())]
    id: Option<String>,
    /// Show the last N calls, or `all` [default: 50; all with --since or --json]
    #[arg(short = 'n', long = "lines", value_name = "N")]
    lines: Option<Limit>,
    /// Show only calls of tools with these names; `*` matches any characters
    #[arg(short, long, value_name = "PATTERN", add = completions::tools())]
    tool: Vec<ToolPattern>,
    /// Show only calls that failed or were refused
    #[arg(long)]
    failed: bool,
    /// Show calls since this time: `2h`, `3d`, `today`, `yesterday`, `2026-08-01`, `2026-08-01 10:00`
    #[arg(short, long, value_name = "TIME")]
    since: Option<Since>,
    /// Keep showing new calls as they end
    #[arg(short, long, conflicts_with = "id")]
    follow: bool,
    /// Show the network activity of calls: a line for each address that was connected to or refused
    #[arg(long, conflicts_with_all = ["id", "follow"])]
    net: bool,
    /// Show the calls that workers of all machines recorded in NATS; `--nats URL` implies this option
    #[arg(long, conflicts_with = "follow")]
    workers: bool,
}

/// How many lines to show.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
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
        let copied = copied(&self, common, terminal).await?;
        let directory = match &copied {
            Some(copied) => copied.path().to_owned(),
            None => Dirs::of_this_machine()?.journal(),
        };
        let view = View::open(&directory)?;
        if let Some(id) = &self.id {
            return one(id, &view, common.verbose > 0, terminal);
        }
        let filter = self.filter(common.program.as_deref());
        let count = match self.limit(terminal) {
            Limit::All => all(&view, filter.clone(), Printer { net: self.net, ..Printer::new(terminal) })?,
            Limit::Last(count) => self.last(&view, count, &filter, terminal)?,
        };
        if self.follow {
            follow(view.follow()?, &filter, terminal).await?;
        } else if count == 0 && !terminal.json {
            match copied {
                Some(_) => terminal.message("no such calls in the journals of workers"),
                None if view.last(1, None, |_| true)?.records.is_empty() => terminal.message(
                    "no calls in the journal yet; the journal does not list calls of servers behind `haft wrap`, \
                     which the client makes",
                ),
                None => {
                    terminal.message(format_args!("no such calls in the journal `{}`", directory.display()));
                }
            }
        }
        Ok(Exit::Success)
    }

    /// Shows the last calls there are, and tells how many.
    fn last(&self, view: &View, count: usize, filter: &Filter, terminal: Terminal) -> anyhow::Result<usize> {
        let last = view.last(count, filter.since(), |outline| filter.matches(outline))?;
        let mut printer = Printer { net: self.net, ..Printer::new(terminal) };
        last.records.iter().for_each(|record| printer.make_room(record));
        for record in &last.records {
            printer.print(record)?;
        }
        printer.flush()?;
        if last.is_cut && self.lines.is_none() && !self.follow {
            terminal.message(format_args!("there may be earlier calls; `-n all` shows them"));
        }
        warn(last.broken, terminal);
        Ok(last.records.len())
    }

    fn limit(&self, terminal: Terminal) -> Limit {
        let usual = match (self.follow, self.since.is_some() || terminal.json || self.net) {
            (true, _) => Limit::Last(DEFAULT_FOLLOWED),
            (false, true) => Limit::All,
            (false, false) => Limit::Last(DEFAULT_LINES),
        };
        self.lines.unwrap_or(usual)
    }

    fn filter(&self, program: Option<&Path>) -> Filter {
        Filter::new(&self.tool, self.failed, self.since.map(|since| since.0), program)
    }
}

/// Shows all calls, and tells how many.
fn all(view: &View, filter: Filter, mut printer: Printer) -> anyhow::Result<usize> {
    let mut calls = view.calls(filter.since(), move |outline| filter.matches(outline))?;
    let mut count = 0;
    for record in &mut calls {
        printer.print(&record?)?;
        count += 1;
    }
    printer.flush()?;
    warn(calls.broken(), printer.terminal);
    Ok(count)
}

async fn follow(mut followed: Followed, filter: &Filter, terminal: Terminal) -> anyhow::Result<()> {
    let mut printer = Printer::new(terminal);
    loop {
        for record in &mut followed {
            let record = record?;
            if filter.matches(&Outline::from(&record)) {
                printer.print(&record)?;
            }
        }
        printer.flush()?;
        tokio::time::sleep(INTERVAL).await;
    }
}

fn one(id: &str, view: &View, is_whole: bool, terminal: Terminal) -> anyhow::Result<Exit> {
    let (found, broken) = view.find(id)?;
    warn(broken, terminal);
    let record = match found {
        Found::One(record) => record,
        Found::Several => anyhow::bail!("several calls begin with `{id}`; write more of the id"),
        Found::None => anyhow::bail!("no call in the journal begins with `{id}`"),
    };
    let children = view.children(&record, MAX_CHILDREN)?;
    if terminal.json {
        terminal.json(&with_calls(&record, &children)?)?;
    } else {
        terminal.data(&detail(&record, &children, is_whole))?;
    }
    Ok(Exit::Success)
}

/// The record as it is in the journal, with the ids of the calls that an agent made to answer it.
fn with_calls(record: &Record, children: &[Record]) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(record)?;
    if let Some(object) = value.as_object_mut().filter(|_| !children.is_empty()) {
        object.insert("calls".into(), children.iter().map(|child| child.id.as_str()).collect());
    }
    Ok(value)
}

/// Says that there is something in the journal that is not one of its lines.
fn warn(broken: usize, terminal: Terminal) {
    if broken > 0 {
        terminal.message(format_args!("{broken} lines of the journal could not be read"));
    }
}

/// Prints many calls without asking the system for every one.
struct Printer {
    terminal: Terminal,
    text: String,
    /// Columns of the names of tools.
    width: usize,
    /// Whether only the network connections of calls are printed.
    net: bool,
}

impl Printer {
    fn new(terminal: Terminal) -> Self {
        Self { terminal, text: String::new(), width: MIN_NAME, net: false }
    }

    /// Makes the column of names as wide as that of the record needs.
    fn make_room(&mut self, record: &Record) {
        self.width = self.width.max(name(record).chars().count()).min(MAX_NAME);
    }

    fn print(&mut self, record: &Record) -> anyhow::Result<()> {
        if self.net && !has_network(record) {
            return Ok(());
        }
        let line = if self.terminal.json {
            serde_json::to_string(record)?
        } else if self.net {
            network(record)
        } else {
            self.make_room(record);
            row(record, self.width, self.terminal.data_columns())
        };
        self.text += &line;
        self.text.push('\n');
        if self.text.len() > BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.terminal.data(&std::mem::take(&mut self.text))?)
    }
}

// A moment in the past as people write it. Refuses what could mean two things.

#[derive(Clone, Copy, Debug)]
struct Since(Timestamp);

const FORMS: &str = "expected an age (`30m`, `2h`, `3d`), `today`, `yesterday`, or a time such as \
    `2026-08-01`, `2026-08-01 10:00` or `10:00`";

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let zone = TimeZone::system();
        since(text.trim(), &Timestamp::now().to_zoned(zone)).map(Self).ok_or_else(|| FORMS.to_owned())
    }
}

/// What `text` means now; a time without a zone is one where `now` is.
fn since(text: &str, now: &Zoned) -> Option<Timestamp> {
    let moment = |date: DateTime| Some(date.to_zoned(now.time_zone().clone()).ok()?.timestamp());
    let midnight = |date: Date| moment(date.to_datetime(Time::midnight()));
    match text {
        "today" => return midnight(now.date()),
        "yesterday" => return midnight(now.date().checked_sub(1.day()).ok()?),
        _ => {}
    }
    if let Ok(ago) = parse_duration(text) {
        let ago = SignedDuration::try_from(ago).ok()?;
        return now.timestamp().checked_sub(ago).ok();
    }
    if let Ok(exact) = text.parse::<Timestamp>() {
        return Some(exact);
    }
    if let Ok(date) = text.parse::<DateTime>() {
        return moment(date);
    }
    moment(now.date().to_datetime(text.parse().ok()?))
}

// The journals of workers on all machines, copied from NATS to where they can be read like this machine's own.

/// A copy of what the workers have sent, which goes with the value; nothing where this machine's journal is meant.
async fn copied(log: &Log, common: &Common, terminal: Terminal) -> anyhow::Result<Option<TempDir>> {
    if !log.workers && common.execution.workers.nats.is_none() {
        return Ok(None);
    }
    if log.follow {
        anyhow::bail!("`--follow` works for this machine's calls; remove it to show those of workers");
    }
    let options = Options { known_only: true, ask: Ask::Never, ..common.options(terminal, false)? };
    // Only the NATS server is needed: nothing of the program is loaded or reported.
    let program = Box::pin(trusted::loaded(&options, terminal)).await?;
    let link = Link::connect(&program.nats().settings().await?, "haft-log").await?;
    let folder = TempDir::with_prefix("haft-log-")?;
    let fetched = fetch(&link, log.since.map(|since| since.0.into()), folder.path()).await?;
    if fetched.foreign > 0 {
        let text =
            format!("skipped lines that a worker sent under another worker's name: {}", fetched.foreign);
        terminal.warning(&text);
    }
    Ok(Some(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_what_people_mean_by_it() {
        let now: Zoned = "2026-08-02T15:30:00+02:00[Europe/Berlin]".parse().unwrap();
        let utc = |text: &str| since(text, &now).map(|time| time.to_string()).unwrap_or_default();
        for (text, expected) in [
            ("90s", "2026-08-02T13:28:30Z"),
            ("2h", "2026-08-02T11:30:00Z"),
            ("3d", "2026-07-30T13:30:00Z"),
            ("today", "2026-08-01T22:00:00Z"),
            ("yesterday", "2026-07-31T22:00:00Z"),
            ("2026-08-01", "2026-07-31T22:00:00Z"),
            ("2026-08-01 10:00", "2026-08-01T08:00:00Z"),
            ("2026-08-01T10:00:00Z", "2026-08-01T10:00:00Z"),
            ("10:00", "2026-08-02T08:00:00Z"),
            ("", ""),
            ("last week", ""),
            ("2", ""),
        ] {
            assert_eq!(utc(text), expected, "{text}");
        }
    }
}
