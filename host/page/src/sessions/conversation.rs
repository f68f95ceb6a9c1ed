//! Converts the lines of a session to a conversation: prompts, turns, calls and answers, in order.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::history;
use haft_agent::provider::RequestedCall;
use haft_agent::{Ended, Entry, Line, Turned};
use haft_core::call::{Attachment, ToolCall};
use haft_core::tool::{Keep, clip, in_a_line};
use haft_core::usage::Cost;

/// The maximum number of entries shown: the last ones.
const MAX_ENTRIES: usize = 1000;

/// The maximum number of characters of a text, which is shortened in the middle.
const MAX_TEXT: usize = 20_000;

/// The maximum number of characters of a call's arguments on a line.
const MAX_LINE: usize = 240;

/// An entry.
#[derive(Debug, Default, Serialize)]
struct Shown {
    /// Milliseconds since 1970.
    time: i64,
    who: &'static str,
    text: String,
    /// The files attached to a prompt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<Call>,
}

/// A turn of a model.
#[derive(Debug, Serialize)]
struct Figures {
    name: String,
    input: u64,
    output: u64,
    cost: Option<f64>,
    calls: usize,
}

/// An answered call.
#[derive(Debug, Serialize)]
struct Call {
    tool: String,
    /// The arguments in short, on one line.
    about: String,
    arguments: String,
    ms: u64,
    is_error: bool,
}

/// Returns the last entries, and the number of earlier ones.
pub(super) fn conversation(lines: Vec<Line>) -> Value {
    let (mut entries, mut earlier, mut calls) = (VecDeque::new(), 0_usize, Vec::new());
    for Line { time, entry } in lines {
        if let Some(entry) = shown(time, entry, &mut calls) {
            entries.push_back(entry);
            if entries.len() > MAX_ENTRIES {
                entries.pop_front();
                earlier += 1;
            }
        }
    }
    json!({ "earlier": earlier, "shown": entries })
}

/// Converts an entry; `calls` holds the unanswered calls of the last turn.
fn shown(time: Timestamp, entry: Entry, calls: &mut Vec<RequestedCall>) -> Option<Shown> {
    let said = |who, text: &str| Shown {
        time: time.as_millisecond(),
        who,
        text: clip(text, MAX_TEXT, Keep::Ends),
        ..Shown::default()
    };
    match entry {
        Entry::Said { text, attachments } => {
            let files = attachments.iter().map(Attachment::mention).collect();
            Some(Shown { files, ..said("you", &text) })
        }
        Entry::Turn(turned) => {
            let Turned { reply, usage, model, .. } = *turned;
            let (cost, count) = (usage.cost.map(Cost::dollars), reply.calls.len());
            let model = Figures { name: model, input: usage.input, output: usage.output, cost, calls: count };
            *calls = reply.calls;
            Some(Shown { model: Some(model), ..said("model", &reply.text) })
        }
        Entry::Answered { call, result, duration_ms, unknown } => {
            let at = calls.iter().position(|requested| requested.call.id == call)?;
            let ToolCall { tool, arguments, .. } = calls.remove(at).call;
            let about = in_a_line(&arguments, MAX_LINE);
            let arguments = clip(&history::arguments(&arguments), MAX_TEXT, Keep::Ends);
            let call = Call { tool, about, arguments, ms: duration_ms, is_error: result.is_error || unknown };
            Some(Shown { call: Some(call), ..said("tool", &result.content) })
        }
        Entry::Summarised(summary) => Some(said("summary", &summary.text)),
        Entry::Ended(Ended { end, error }) => {
            let why = error.or_else(|| end.map(|end| end.name().to_owned())).unwrap_or_default();
            Some(said("end", &why))
        }
        Entry::Resumed { .. } => Some(said("end", "gone on with by another process")),
        Entry::Begun(_) | Entry::Running { .. } | Entry::Other => None,
    }
}
