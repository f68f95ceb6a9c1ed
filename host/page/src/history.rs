//! The calls that are over, from the journal: rows as the page shows them, and all that is known of one.

mod filter;
mod row;

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};

pub(crate) use self::filter::Filter;
pub(crate) use self::row::{Hint, Row, arguments, is_alive, who};
use haft_journal::{Found, Outcome, Record, View};

/// Rows that are sent at once: more than anybody reads.
const MAX_ROWS: usize = 500;

/// Lines that are looked at for them: a second's work. Where they end the answer says so.
const MAX_LINES: usize = 300_000;

/// Calls that have ended and whose first line is further up.
const MAX_ENDED: usize = 1 << 16;

/// Calls of an agent that are listed below the one that it answers.
const MAX_CHILDREN: usize = 100;

/// The last calls that `filter` lets through, the newest first.
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

/// All that the journal has of the call `id`; `None` where it has no such call.
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

/// A record of a call that its process cannot end any more has this outcome.
pub(crate) fn outcome(record: &Record) -> &'static str {
    match record.outcome {
        Outcome::Started if !is_alive(record.pid) => "unfinished",
        Outcome::Started => "running",
        outcome => outcome.name(),
    }
}
