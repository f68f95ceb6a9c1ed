//! The ended calls from the journal: the filter, the rows of the page, and the details of one call.

mod row;

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};

pub(crate) use self::row::{Hint, Row, arguments, is_alive, who};
use haft_journal::{Found, Outcome, Outline, Record, View};

/// The maximum number of rows of a response: more than anybody reads.
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

/// Returns the outcome. A started call whose process is gone is unfinished.
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
    /// Whether the record of an outline may match.
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

/// Whether `text` contains `part`, ignoring case.
fn has(text: &str, part: &str) -> bool {
    part.is_empty() || text.to_lowercase().contains(&part.to_lowercase())
}
