//! The saved sessions of `haft run` and `haft chat`: a list, and one session as a conversation.

use std::collections::{HashMap, VecDeque};

use jiff::{Timestamp, Zoned};
use serde::Serialize;
use serde_json::{Value, json};

use crate::history;
use haft_agent::provider::{Message, Prompt, RequestedCall, Turn};
use haft_agent::{End, Ended, Entry, Line, Restored, Saved, Sessions};
use haft_core::call::{Attachment, ToolCall};
use haft_core::sync::Lock;
use haft_core::tool::{Keep, clip, in_a_line};
use haft_core::usage::{Cost, Usage};

/// The maximum number of listed sessions: the newest.
const MAX_SESSIONS: usize = 100;

/// The maximum size, in bytes, of a session that is read for the list; of a longer one only the beginning is
/// listed.
const MAX_LISTED: u64 = 8 << 20;

/// The maximum size of a shown session in bytes.
const MAX_SHOWN: u64 = 256 << 20;

/// The maximum number of characters of a title.
const MAX_TITLE: usize = 120;

/// The length of a session when it was read, and the start of the day for which its usage was summed.
type Read = (u64, Timestamp);

/// Lists sessions, and caches unchanged ones.
#[derive(Default)]
pub(crate) struct Listing {
    known: Lock<HashMap<String, (Read, Value)>>,
}

impl Listing {
    /// Returns the newest sessions, newest first.
    pub(crate) fn all(&self, sessions: &Sessions) -> Result<Value, String> {
        let all = sessions.all().map_err(|error| error.to_string())?;
        let today = Zoned::now().start_of_day().map_err(|error| error.to_string())?.timestamp();
        let is_cut = all.len() > MAX_SESSIONS;
        let newest: Vec<_> = all.iter().rev().take(MAX_SESSIONS).collect();
        let rows: Vec<_> = newest.iter().filter_map(|saved| self.row(saved, today)).collect();
        let is_listed = |id: &String| newest.iter().any(|saved| saved.id == *id);
        self.known.lock().retain(|id, _| is_listed(id));
        Ok(json!({ "sessions": rows, "is_cut": is_cut }))
    }

    fn row(&self, saved: &Saved, today: Timestamp) -> Option<Value> {
        let length = length(saved)?;
        let read = (length, today);
        let known = self.known.lock().get(&saved.id).filter(|(known, _)| *known == read).cloned();
        let mut row = if let Some((_, row)) = known {
            row
        } else {
            let row = if length <= MAX_LISTED { whole(saved, today)? } else { opening(saved)? };
            self.known.lock().insert(saved.id.clone(), (read, row.clone()));
            row
        };
        if let Some(state) = row.get_mut("state").filter(|_| saved.is_in_use()) {
            *state = "in use".into();
        }
        Some(row)
    }
}

/// Returns the session `id` as a conversation; `None` if it does not exist.
pub(crate) fn one(sessions: &Sessions, id: &str) -> Result<Option<Value>, String> {
    let Ok(saved) = sessions.find(id) else { return Ok(None) };
    if length(&saved).is_none_or(|length| length > MAX_SHOWN) {
        return Err(format!("the session is too large to show here; use `haft session show {}`", saved.id));
    }
    let lines = saved.lines().map_err(|error| error.to_string())?;
    let row = opening(&saved).unwrap_or_default();
    Ok(Some(json!({ "session": row, "entries": conversation(lines) })))
}

fn length(saved: &Saved) -> Option<u64> {
    std::fs::metadata(saved.path()).ok().map(|metadata| metadata.len())
}

fn whole(saved: &Saved, today: Timestamp) -> Option<Value> {
    let restored = saved.restored().ok()?;
    let title = match restored.messages.first() {
        Some(Message::User(asked)) => asked.told(),
        _ => String::new(),
    };
    Some(json!({
        "id": saved.id,
        "state": state(&restored),
        "changed": restored.changed.as_millisecond(),
        "turns": restored.turns,
        "model": restored.model,
        "input": restored.usage.input,
        "output": restored.usage.output,
        "today": (restored.changed >= today).then(|| used_since(saved, today)),
        "cost": restored.usage.cost.map(Cost::dollars),
        "program": restored.begun.program,
        "folder": restored.begun.folder,
        "agent": restored.begun.agent,
        "title": short(&title),
    }))
}

fn used_since(saved: &Saved, since: Timestamp) -> Value {
    let mut usage = Usage::default();
    for line in saved.lines().unwrap_or_default().into_iter().filter(|line| line.time >= since) {
        match line.entry {
            Entry::Turn(turned) => usage += turned.usage,
            Entry::Summarised(summary) => usage += summary.usage,
            _ => {}
        }
    }
    json!({ "input": usage.input, "output": usage.output, "cost": usage.cost.map(Cost::dollars) })
}

/// Returns the row from the beginning of a session.
fn opening(saved: &Saved) -> Option<Value> {
    let (begun, said) = saved.opening()?;
    Some(json!({
        "id": saved.id,
        "state": "",
        "changed": saved.changed().map(Timestamp::as_millisecond),
        "program": begun.program,
        "folder": begun.folder,
        "agent": begun.agent,
        "title": short(&said.unwrap_or_default()),
    }))
}

fn state(restored: &Restored) -> &'static str {
    match &restored.ended {
        None => "interrupted",
        Some(ended) => ended.end.unwrap_or(End::Failed).name(),
    }
}

fn short(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    clip(&words, MAX_TITLE, Keep::Head).lines().next().unwrap_or_default().to_owned()
}

// Converts the lines of a session to a conversation: prompts, turns, calls and answers, in order.

/// The maximum number of entries shown: the last ones.
const MAX_ENTRIES: usize = 1000;

/// The maximum number of characters of a text, which is shortened in the middle.
const MAX_TEXT: usize = 20_000;

/// The maximum number of characters of a call's arguments on a line.
const MAX_LINE: usize = 240;

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
fn conversation(lines: Vec<Line>) -> Value {
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
        Entry::Said(Prompt { text, attachments }) => {
            let files = attachments.iter().map(Attachment::mention).collect();
            Some(Shown { files, ..said("you", &text) })
        }
        Entry::Turn(turn) => {
            let Turn { reply, usage, model, .. } = *turn;
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
        Entry::Resumed { .. } => Some(said("end", "resumed by another process")),
        Entry::Begun(_) | Entry::Running { .. } | Entry::Other => None,
    }
}
