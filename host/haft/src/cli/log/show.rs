//! The presentation of a call from the journal: as one line, or with all details. Control characters in texts of
//! tools and models are neutralised.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::cli::terminal::{Column, DIM, FAILED, Style, changed, first_lines, more_lines};
use haft_core::report::shortened;
use haft_core::tool::{Difference, in_a_line, in_full};
use haft_journal::{Granted, Outcome, Outline, Record};
use haft_manifest::ToolPattern;
use haft_sandbox::confine::Connection;

/// Digits of an id that tell a call from the others, nearly always.
const SHORT_ID: usize = 8;

const MAX_ARGUMENTS: usize = 100;

/// Spaces before the call of an agent, for each agent that it came through.
const INDENT: usize = 2;

/// The same at least, however narrow the terminal is.
const MIN_ARGUMENTS: usize = 12;

/// Columns of a terminal that has room for the year.
const WIDE: usize = 100;

/// Columns of the names of tools: most built-in ones at least, and not so many that nothing is left for the rest.
pub(super) const MIN_NAME: usize = 12;
pub(super) const MAX_NAME: usize = 32;

/// Columns of how calls end.
const OUTCOME: usize = 10;

/// Lines of an answer or error that are shown where not all of it is asked for.
const MAX_ANSWER: usize = 12;

/// A line: when, which, how it ended, how long it took, and with what. The name gets `width` columns.
pub(super) fn row(record: &Record, width: usize, columns: Option<usize>) -> String {
    // A narrow terminal has room only for the subject.
    let form =
        if columns.is_some_and(|columns| columns < WIDE) { "%m-%d %H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    let time = record.time.to_zoned(TimeZone::system()).strftime(form).to_string();
    let id: String = record.id.chars().take(SHORT_ID).collect();
    let style = if record.outcome == Outcome::Ok { Style::new() } else { FAILED };
    let (tool, outcome) = (name(record), in_a_word(outcome(record)));
    let duration = record.duration_ms.map(took).unwrap_or_default();
    let fixed = format!("{time} {id} {tool:width$} {outcome:OUTCOME$} {duration:>8} ").chars().count();
    let room = columns.map_or(MAX_ARGUMENTS, |columns| columns.saturating_sub(fixed + 1));
    let room = room.clamp(MIN_ARGUMENTS, MAX_ARGUMENTS);
    let arguments = shortened(&plain(&in_a_line(&record.arguments, room)).replace('\n', "\\n"), room);
    format!(
        "{DIM}{time} {id}{DIM:#} {tool:width$} {style}{outcome:OUTCOME$}{style:#} {duration:>8} {DIM}{arguments}{DIM:#}"
    )
}

/// The starts of the texts about the network in the journal.
const NETWORK: &[&str] = &[Connection::NOTED, "refused: connect to ", "refused: look up ", "refused: send "];

/// Returns the texts about the network connections of a call.
fn on_network(record: &Record) -> impl Iterator<Item = &String> {
    let is_network = |decision: &&String| NETWORK.iter().any(|beginning| decision.starts_with(beginning));
    record.decisions.iter().filter(is_network)
}

/// Returns whether a call used the network, or was refused to.
pub(super) fn has_network(record: &Record) -> bool {
    on_network(record).next().is_some()
}

/// Returns the network connections of a call, one per line.
pub(super) fn network(record: &Record) -> String {
    let time = record.time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S");
    let id: String = record.id.chars().take(SHORT_ID).collect();
    let name = name(record);
    let line = |decision: &String| {
        format!("{DIM}{time} {id}{DIM:#} {name} {}", plain(decision).replace('\n', "\\n"))
    };
    on_network(record).map(line).collect::<Vec<_>>().join("\n")
}

/// How a call ended, in a word that the column has room for.
fn in_a_word(outcome: &'static str) -> &'static str {
    outcome.split_once(' ').map_or(outcome, |(first, _)| first)
}

/// The tool with the agent that called it, and the worker that ran it.
pub(super) fn name(record: &Record) -> String {
    let tool = plain(&record.tool);
    let tool = match record.agent.as_deref().map(plain) {
        Some(agent) => {
            format!("{:width$}{agent}/{tool}", "", width = INDENT * (agent.matches('/').count() + 1))
        }
        None => tool,
    };
    let tool = match record.program.worker.as_deref().map(plain) {
        Some(worker) => format!("{worker}: {tool}"),
        None => tool,
    };
    tool.replace('\n', "\\n")
}

/// Everything, a line each; of a long answer the first lines, unless it `is_whole`.
pub(super) fn detail(record: &Record, children: &[Record], is_whole: bool) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| put(&mut text, name, &plain(value));
    let time = record.time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.3f %:z").to_string();
    row("call", &record.id);
    row("time", &time);
    row("tool", &named(&record.tool, record.origin.as_deref()));
    row("outcome", outcome(record));
    row("took", &record.duration_ms.map(|ms| lasted(ms, record.waited_ms)).unwrap_or_default());
    row("memory", &record.peak_memory.map(memory).unwrap_or_default());
    row("component", &record.digest.as_ref().map(|digest| format!("sha256:{digest}")).unwrap_or_default());
    row("program", &program(record));
    row("worker", record.program.worker.as_deref().unwrap_or_default());
    row("agent", &agent(record));
    row("caller", record.caller.as_deref().unwrap_or_default());
    row("through", record.via.as_deref().unwrap_or_default());
    row("haft", &format!("{}, process {}, call `{}`", record.haft, record.pid, record.call));
    record.grant.iter().for_each(|granted| row("granted", &grant(granted)));
    row("decided", &record.decisions.join("\n"));
    let difference = Difference::of(&record.arguments, None);
    row("arguments", in_full(&record.arguments, difference.as_ref()).trim_start_matches('\n'));
    if let Some(difference) = difference {
        let lines: Vec<_> = changed(&difference).iter().map(|line| plain(line)).collect();
        put(&mut text, "changes", &lines.join("\n"));
    }
    for (name, said) in [("error", &record.error), ("answer", &record.answer)] {
        put(&mut text, name, &folded(said.as_deref().unwrap_or_default(), is_whole));
    }
    put(&mut text, "calls", &children.iter().map(|call| plain(&child(call))).collect::<Vec<_>>().join("\n"));
    text
}

/// How long a call took, and how long of that it waited for a person.
fn lasted(ms: f64, waited: Option<f64>) -> String {
    match waited {
        Some(waited) => {
            format!("{}, and {} for a person's answer", took((ms - waited).max(0.0)), took(waited))
        }
        None => took(ms),
    }
}

/// A name, and a text of one or several lines beside it.
fn put(text: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{name:10} {Column}{}", value.replace('\n', "\n           "));
    }
}

/// The first lines of what a caller was answered.
fn folded(text: &str, is_whole: bool) -> String {
    let most = if is_whole { usize::MAX } else { MAX_ANSWER };
    let (lines, more) = first_lines(text, most, usize::MAX);
    let rest = (more > 0).then(|| more_lines(more, "-v shows them"));
    lines.iter().map(|line| plain(line)).chain(rest).collect::<Vec<_>>().join("\n")
}

/// The agent that made the call, and the call that it answers.
fn agent(record: &Record) -> String {
    match (&record.agent, &record.parent) {
        (Some(agent), Some(parent)) => format!("{agent}, for call {parent}"),
        (Some(agent), None) => agent.clone(),
        _ => String::new(),
    }
}

/// A call that an agent made to answer another, in a line.
fn child(record: &Record) -> String {
    format!("{} {} {}", record.id, record.tool, outcome(record))
}

fn named(name: &str, more: Option<&str>) -> String {
    more.map_or_else(|| name.to_owned(), |more| format!("{name} ({more})"))
}

fn program(record: &Record) -> String {
    match (&record.program.name, &record.program.path) {
        (Some(name), path) => named(name, path.as_deref()),
        (None, path) => path.clone().unwrap_or_default(),
    }
}

/// What a tool may do, a line each.
pub(in crate::cli) fn grant(granted: &Granted) -> String {
    let list = |name: &str, entries: &[String]| {
        let entries = entries.iter().map(|entry| if entry == "*" { "everything" } else { entry });
        let entries: Vec<_> = entries.collect();
        (!entries.is_empty()).then(|| format!("{name} {}", entries.join(", ")))
    };
    let flag = |name: &str, set: bool| set.then(|| name.to_owned());
    let parts = [
        list("read", &granted.read),
        list("write", &granted.write),
        list("reach", &granted.hosts),
        list("see", &granted.env),
        list("open credentials", &granted.credentials),
        flag("network for processes", granted.network),
        flag("unix sockets for processes", granted.unix_sockets),
        list("use services", &granted.services),
        granted.workspace.as_ref().map(|workspace| format!("workspace {workspace}")),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join("\n") }
}

fn took(milliseconds: f64) -> String {
    match milliseconds {
        short if short < 10.0 => format!("{short:.1} ms"),
        short if short < 10_000.0 => format!("{short:.0} ms"),
        long => format!("{:.0} s", long / 1000.0),
    }
}

fn memory(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit after the point")]
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    format!("{mebibytes:.1} MiB")
}

/// A text without control characters but line breaks.
fn plain(text: &str) -> String {
    let shown = |c: char| {
        let is_control = c.is_control() && c != '\n';
        let (as_is, escaped) = (Some(c).filter(|_| !is_control), c.escape_default());
        as_is.into_iter().chain(escaped.filter(move |_| is_control))
    };
    text.chars().flat_map(shown).collect()
}

// The calls that `haft log` shows. Selects a call by its outline: the rest of an unselected line is not parsed.

#[derive(Clone)]
pub(super) struct Filter {
    tools: Vec<ToolPattern>,
    failed: bool,
    since: Option<Timestamp>,
    /// A program's name, and the same as a path.
    program: Option<(PathBuf, PathBuf)>,
}

impl Filter {
    pub(super) fn new(
        tools: &[ToolPattern],
        failed: bool,
        since: Option<Timestamp>,
        program: Option<&Path>,
    ) -> Self {
        let file = |name: &Path| std::path::absolute(name).unwrap_or_else(|_| name.to_owned());
        let program = program.map(|name| (name.to_owned(), file(name)));
        Self { tools: tools.to_owned(), failed, since, program }
    }

    /// The time before which no call began that is shown.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.since
    }

    pub(super) fn matches(&self, call: &Outline) -> bool {
        let is_tool = self.tools.is_empty() || self.tools.iter().any(|pattern| pattern.matches(&call.tool));
        let is_failed = || !self.failed || call.outcome.is_failure() || is_unfinished(call.outcome, call.pid);
        let is_late = self.since.is_none_or(|since| call.time >= since);
        is_tool && is_late && self.is_of_program(call) && is_failed()
    }

    fn is_of_program(&self, call: &Outline) -> bool {
        let Some((name, file)) = &self.program else { return true };
        let is_named = call.program.name.as_deref().is_some_and(|own| name.as_os_str() == own);
        is_named || call.program.path.as_deref().is_some_and(|path| Path::new(path) == file)
    }
}

// The end of a call, as `haft log` shows it.

/// Whether haft ended before the call did, which the process `pid` made.
pub(super) fn is_unfinished(outcome: Outcome, pid: u32) -> bool {
    let process = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let runs = || process.is_some_and(|process| rustix::process::test_kill_process(process).is_ok());
    outcome == Outcome::Started && !runs()
}

/// How a call ended, in a word.
pub(super) fn outcome(record: &Record) -> &'static str {
    match record.outcome {
        Outcome::Started if is_unfinished(record.outcome, record.pid) => "unfinished",
        Outcome::Started => "running",
        outcome => outcome.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shown_commands_the_terminal() {
        let record = Record {
            tool: "x\u{1b}[2J\n".into(),
            error: Some("a\u{1b}]0;title\u{7}\nb".into()),
            duration_ms: Some(12.3),
            ..Record::default()
        };
        let row = row(&record, MIN_NAME, Some(80));
        assert_eq!(row.lines().count(), 1);
        for shown in [row, detail(&record, &[], false)] {
            let own: Vec<_> = vec![crate::cli::terminal::written(&shown, false)];
            assert!(!own.concat().contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
            assert!(shown.contains("\\u{1b}"), "{shown:?}");
        }
    }

    #[test]
    fn durations_and_sizes_are_rounded_for_people() {
        assert_eq!([0.04, 12.34, 61_234.5].map(took), ["0.0 ms", "12 ms", "61 s"]);
        assert_eq!(memory(1_638_400), "1.6 MiB");
    }
}
