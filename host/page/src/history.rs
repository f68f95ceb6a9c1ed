//! The ended calls from the journal: the filter, the rows of the dashboard, and the details of one call.

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use rustix::process::{Pid, test_kill_process};
use serde::Serialize;
use serde_json::{Value, json};

use haft_core::report::shortened;
use haft_core::tool::{Difference, Keep, clip, in_a_line, in_full};
use haft_journal::{Found, Outcome, Outline, Record, View};

/// The maximum number of rows of a response.
const MAX_ROWS: usize = 500;

/// The maximum number of lines read for them: a second's work. The response reports that it was reached.
const MAX_LINES: usize = 300_000;

/// The maximum number of ended calls whose first line is expected.
const MAX_ENDED: usize = 1 << 16;

/// The maximum number of calls of an agent listed below the call that it answers.
const MAX_CHILDREN: usize = 100;

/// Returns the last calls that `filter` matches, newest first.
pub(crate) fn calls(directory: &Path, filter: &Filter) -> io::Result<Value> {
    let (mut rows, mut ended, mut looked) = (Vec::new(), HashSet::new(), 0);
    let mut is_cut = false;
    View::open(directory)?.backward(|outline, record| {
        looked += 1;
        is_cut = rows.len() >= MAX_ROWS || looked > MAX_LINES;
        if is_cut {
            return ControlFlow::Break(());
        }
        let is_begin = outline.outcome == Outcome::Started;
        if is_begin && ended.remove(&outline.id) {
            return ControlFlow::Continue(());
        }
        if !is_begin && ended.len() < MAX_ENDED {
            ended.insert(outline.id.clone());
        }
        if filter.may_match(outline)
            && let Some(record) = record().filter(|record| filter.matches(record))
        {
            rows.push(Row::new(&record));
        }
        ControlFlow::Continue(())
    })?;
    Ok(json!({ "rows": rows, "is_cut": is_cut, "looked": looked }))
}

/// Returns the details of the call `id`; `None` if the journal has no such call.
pub(crate) fn call(directory: &Path, id: &str) -> io::Result<Option<Value>> {
    let view = View::open(directory)?;
    let (Found::One(record), _) = view.find(id)? else { return Ok(None) };
    let children = view.children(&record, MAX_CHILDREN)?;
    let children: Vec<_> = children.iter().map(Row::new).collect();
    Ok(Some(json!({
        "record": &*record,
        "row": Row::new(&record),
        "arguments": arguments(&record.arguments),
        "calls": children,
    })))
}

/// Returns the outcome. A started call whose process has ended is unfinished.
pub(crate) fn outcome(record: &Record) -> &'static str {
    match record.outcome {
        Outcome::Started if !is_alive(record.pid) => "unfinished",
        Outcome::Started => "running",
        outcome => outcome.name(),
    }
}

/// The filter; an empty text matches everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// A part of the tool's name.
    pub(crate) tool: String,
    /// A part of the name of the caller, the agent, the client or the program.
    pub(crate) caller: String,
    /// A part of the arguments, the answer, the error, a decision or the id.
    pub(crate) text: String,
    /// The outcome: `ok`, `failed`, `refused`, `running`.
    pub(crate) outcome: String,
}

impl Filter {
    pub(crate) fn may_match(&self, outline: &Outline) -> bool {
        has(&outline.tool, &self.tool) && self.has_outcome(outline.outcome)
    }

    pub(crate) fn matches(&self, record: &Record) -> bool {
        let is_said = || {
            let texts =
                [Some(&record.id), record.answer.as_ref(), record.error.as_ref(), record.origin.as_ref()];
            let texts = texts.into_iter().flatten().chain(&record.decisions);
            texts.into_iter().any(|text| has(text, &self.text))
                || has(&record.arguments.to_string(), &self.text)
        };
        let (caller, program) = who(&Outline::from(record));
        (has(&caller, &self.caller) || has(&program, &self.caller)) && (self.text.is_empty() || is_said())
    }

    fn has_outcome(&self, outcome: Outcome) -> bool {
        match self.outcome.as_str() {
            "ok" => outcome == Outcome::Ok,
            "failed" => outcome.is_failure(),
            "refused" => outcome == Outcome::Refused,
            "running" => outcome == Outcome::Started,
            _ => true,
        }
    }
}

/// Returns whether `text` contains `part`, ignoring case.
fn has(text: &str, part: &str) -> bool {
    part.is_empty() || text.to_lowercase().contains(&part.to_lowercase())
}

/// The maximum number of characters of the arguments in a row.
const MAX_ARGUMENTS: usize = 240;

/// The maximum number of characters of an answer's first line in a row.
const MAX_ANSWER: usize = 160;

/// The maximum number of characters of an error in a row.
const MAX_ERROR: usize = 400;

/// The prefix of the hint in an error, which states how to allow a refused access. Only haft writes such a line:
/// a line of a tool with this prefix is quoted.
const HINT: &str = "hint: ";

#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) id: String,
    /// The start of the call, in milliseconds since 1970.
    pub(crate) time: i64,
    pub(crate) tool: String,
    outcome: &'static str,
    /// The duration of the tool in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
    /// The wait of the call for a user, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited: Option<f64>,
    caller: String,
    program: String,
    /// The process id of haft, and the caller's id of the call: a question about it has both.
    pid: u32,
    call: String,
    arguments: String,
    /// The first line of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<Hint>,
}

/// The way to allow a refused access.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Hint {
    pub(crate) text: String,
    /// The line of program.toml in the hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
}

impl Row {
    pub(crate) fn new(record: &Record) -> Self {
        let first =
            |text: &Option<String>| text.as_deref().and_then(|text| text.lines().next()).map(str::to_owned);
        let (answer, error) = (first(&record.answer), first(&record.error));
        let outline = Outline::from(record);
        let (caller, program) = who(&outline);
        Self {
            id: record.id.clone(),
            time: record.time.as_millisecond(),
            tool: record.tool.clone(),
            outcome: outcome(record),
            ms: outline.ran_ms(),
            waited: record.waited_ms,
            caller,
            program,
            pid: record.pid,
            call: record.call.clone(),
            arguments: in_a_line(&record.arguments, MAX_ARGUMENTS),
            answer: answer.map(|answer| shortened(&answer, MAX_ANSWER)),
            error: error.map(|error| clip(&error, MAX_ERROR, Keep::Head)),
            hint: record.error.as_deref().and_then(hint),
        }
    }
}

/// Returns the full arguments of a call, one below the other, and the difference that the call makes.
pub(crate) fn arguments(arguments: &Value) -> String {
    let difference = Difference::of(arguments, None);
    let text = in_full(arguments, difference.as_ref());
    match difference {
        Some(difference) => format!("{text}\n{difference}"),
        None => text.trim_start_matches('\n').to_owned(),
    }
}

/// Returns the caller and the program of a call.
pub(crate) fn who(outline: &Outline) -> (String, String) {
    let Outline { caller, via, agent, program, .. } = outline;
    let client = match (caller, via) {
        (Some(caller), Some(via)) => format!("{caller} ({via})"),
        (caller, via) => caller.clone().or_else(|| via.clone()).unwrap_or_else(|| "haft".into()),
    };
    let program = program.name.clone().or_else(|| program.path.clone());
    let program = program.unwrap_or_else(|| "no program.toml".into());
    (agent.as_ref().map_or(client.clone(), |agent| format!("{client} / {agent}")), program)
}

/// Returns the first hint in an error.
pub(crate) fn hint(error: &str) -> Option<Hint> {
    let text = error.lines().find_map(|line| line.strip_prefix(HINT))?;
    let line = text.split('`').skip(1).step_by(2).find(|quoted| quoted.contains(" = "));
    Some(Hint { text: text.to_owned(), line: line.map(str::to_owned) })
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_has_the_line_to_copy() {
        let error = "refused\n> hint: `x = 1`\nhint: add `read = [\"/etc\"]` to the plugin `a`";
        let found = hint(error).unwrap();
        assert_eq!(found.line.as_deref(), Some("read = [\"/etc\"]"));
        assert!(found.text.ends_with("to the plugin `a`"));
        assert_eq!(hint("> hint: `x = 1`"), None, "a tool's own words");
    }
}
