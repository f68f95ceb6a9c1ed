//! How a call of the journal looks: a line among others, or all there is to say. What tools and
//! models wrote is shown without anything that a terminal would obey.

use std::fmt::Write;

use jiff::tz::TimeZone;

use super::outcome::outcome;
use crate::cli::terminal::{Column, DIM, FAILED, Style};
use haft_core::journal::{Granted, Outcome, Record};
use haft_core::report::shortened;

/// Digits of an id that tell a call from the others, nearly always.
const SHORT_ID: usize = 8;

/// Characters of the arguments in a line.
const MAX_ARGUMENTS: usize = 100;

/// Spaces before the call of an agent, for each agent that it came through.
const INDENT: usize = 2;

/// Width of the names of tools: most built-in ones and many others.
const NAME: usize = 12;

/// A line: when, which, how it ended, how long it took, and with what.
pub(super) fn row(record: &Record) -> String {
    let time = record.time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let id: String = record.id.chars().take(SHORT_ID).collect();
    let style = if record.outcome == Outcome::Ok { Style::new() } else { FAILED };
    let (tool, outcome) = (plain(&record.tool), outcome(record));
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
    let tool = tool.replace('\n', "\\n");
    let duration = record.duration_ms.map(took).unwrap_or_default();
    let arguments = shortened(&plain(&record.arguments.to_string()), MAX_ARGUMENTS);
    format!(
        "{DIM}{time} {id}{DIM:#} {tool:NAME$} {style}{outcome:9}{style:#} {duration:>8} {DIM}{arguments}{DIM:#}"
    )
}

/// Everything, a line each.
pub(super) fn detail(record: &Record, children: &[Record]) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "{name:10} {Column}{}", plain(value).replace('\n', "\n           "));
        }
    };
    let time = record.time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.3f %:z").to_string();
    row("call", &record.id);
    row("time", &time);
    row("tool", &named(&record.tool, record.origin.as_deref()));
    row("outcome", outcome(record));
    row("took", &record.duration_ms.map(took).unwrap_or_default());
    row("memory", &record.peak_memory.map(memory).unwrap_or_default());
    row("component", &record.digest.as_ref().map(|digest| format!("sha256:{digest}")).unwrap_or_default());
    row("program", &program(record));
    row("worker", record.program.worker.as_deref().unwrap_or_default());
    row("agent", &agent(record));
    row("caller", record.caller.as_deref().unwrap_or_default());
    row("haft", &format!("{}, process {}, call `{}`", record.haft, record.pid, record.call));
    record.grant.iter().for_each(|granted| row("granted", &grant(granted)));
    row("decided", &record.decisions.join("\n"));
    row("arguments", &serde_json::to_string_pretty(&record.arguments).unwrap_or_default());
    row("error", record.error.as_deref().unwrap_or_default());
    row("calls", &children.iter().map(child).collect::<Vec<_>>().join("\n"));
    text
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

fn grant(granted: &Granted) -> String {
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
        assert_eq!(row(&record).lines().count(), 1);
        for shown in [row(&record), detail(&record, &[])] {
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
