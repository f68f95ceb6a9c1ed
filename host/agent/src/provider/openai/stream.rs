//! Folds a streamed chat completion into a complete one. Servers differ in the content of a chunk; a missing member
//! never ends a turn.

use serde_json::{Map, Value, json};

use crate::provider::calls::{self, echo_arguments, echo_name, is_object_text};
use crate::provider::codes::reported_error;
use crate::provider::dialect::{Fold, Piece};
use crate::provider::error::Failure;
use crate::provider::pieces::{MAX_ITEMS, Shape, join};
use crate::provider::{Reply, RequestedCall};

/// The keys of a model's thinking.
const THOUGHTS: &[&str] = &["reasoning_content", "reasoning"];
const CALL: Shape =
    Shape { is_call: Value::is_object, id: "id", function: Some("function"), arguments: "arguments" };

/// A message so far, with its calls; Ollama uses this format too.
#[derive(Default)]
pub(in crate::provider) struct ChatMessage {
    rest: Map<String, Value>,
    calls: Vec<Value>,
}

impl ChatMessage {
    pub(in crate::provider) fn join(&mut self, piece: Map<String, Value>) -> Result<(), Failure> {
        for (key, value) in piece {
            match value {
                Value::Array(calls) if key == "tool_calls" => {
                    let mut calls = calls.into_iter().filter_map(object);
                    if !calls.all(|call| CALL.add(&mut self.calls, call)) {
                        return Err(Failure::Malformed(format!("more than {MAX_ITEMS} calls in a turn")));
                    }
                }
                value => join(&mut self.rest, key, value),
            }
        }
        Ok(())
    }

    pub(in crate::provider) fn whole(mut self) -> Map<String, Value> {
        CALL.settle(&mut self.calls);
        if !self.calls.is_empty() {
            self.rest.insert("tool_calls".into(), self.calls.into());
        }
        self.rest
    }
}

fn object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

#[derive(Default)]
pub(super) struct Completion {
    body: Map<String, Value>,
    message: ChatMessage,
    finish: Option<Value>,
    has_choice: bool,
}

impl Fold for Completion {
    fn take(&mut self, frame: Value, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        reported_error(&frame)?;
        let Value::Object(mut frame) = frame else {
            return Err(Failure::Malformed("a chunk is not an object".into()));
        };
        if let Some(Value::Array(choices)) = frame.shift_remove("choices")
            && let Some(Value::Object(choice)) = choices.into_iter().next()
        {
            self.choice(choice, pieces)?;
        }
        for key in ["model", "usage"] {
            if let Some(value) = frame.shift_remove(key).filter(|value| !value.is_null()) {
                self.body.insert(key.into(), value);
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.finish.is_some()
    }

    fn body(self: Box<Self>) -> Value {
        let Self { mut body, message, finish, has_choice } = *self;
        if has_choice {
            let mut message = message.whole();
            let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten();
            for call in calls.filter_map(Value::as_object_mut) {
                call.shift_remove("index");
            }
            let choice = json!({ "message": message, "finish_reason": finish });
            body.insert("choices".into(), vec![choice].into());
        }
        body.into()
    }
}

impl Completion {
    fn choice(&mut self, mut choice: Map<String, Value>, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        self.has_choice = true;
        let finish = choice.shift_remove("finish_reason");
        let is_told = |finish: &Value| finish.as_str().is_some_and(|word| !word.is_empty());
        // Some servers end a stream with the complete message, and some send only that.
        let is_first = self.message.rest.is_empty() && self.message.calls.is_empty();
        let whole = choice.shift_remove("message").filter(|_| is_first);
        let delta = choice.shift_remove("delta").filter(Value::is_object).or(whole);
        if let Some(Value::Object(delta)) = delta {
            push_pieces(&delta, pieces);
            self.message.join(delta)?;
        }
        // Checked after the delta, which may hold the beginning of an unusable answer.
        reported_error(&Value::Object(choice))?;
        // An answer with an error has no finish reason.
        self.finish = finish.filter(is_told).or(self.finish.take());
        Ok(())
    }
}

fn push_pieces(delta: &Map<String, Value>, pieces: &mut Vec<Piece>) {
    let thought = THOUGHTS.iter().find_map(|key| delta.get(*key)?.as_str());
    pieces.extend(thought.map(|text| Piece::Thought(text.to_owned())));
    match delta.get("content") {
        Some(Value::String(text)) => pieces.push(Piece::Text(text.clone())),
        Some(Value::Array(parts)) => {
            pieces.extend(parts.iter().filter_map(part_text).map(|text| Piece::Text(text.to_owned())));
        }
        _ => {}
    }
    let refusal = delta.get("refusal").and_then(Value::as_str);
    pieces.extend(refusal.map(|text| Piece::Text(text.to_owned())));
}

// Reads the assistant's message of a chat completion: its text, its calls, and the form to send back. Never fails:
// unreadable parts become an error message for the model.

/// Reads `message`. `cut`: the limit of output tokens ended it. `earlier`: the number of calls already in the
/// conversation, from which missing ids are generated.
pub(super) fn decode(message: &Map<String, Value>, cut: bool, earlier: usize) -> Reply {
    let sent = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut calls: Vec<RequestedCall> = Vec::new();
    let mut echoes = Vec::new();
    for entry in sent.iter().filter_map(Value::as_object) {
        let (id, function) = (entry.get("id"), function(entry));
        let requested = calls::requested_call(id, function, "arguments", &calls, earlier);
        echoes.push(echo_call(entry, &requested));
        calls.push(requested);
    }
    if cut {
        calls::cut_off(&mut calls);
    }
    let text = text(message);
    Reply { raw: echo(message, &text, echoes), text, calls, ..Reply::default() }
}

pub(super) fn refusal(message: &Map<String, Value>) -> Option<&str> {
    let part = || {
        let parts = message.get("content")?.as_array()?;
        parts.iter().find_map(|part| part.get("refusal")?.as_str())
    };
    message.get("refusal").and_then(Value::as_str).or_else(part).filter(|text| !text.is_empty())
}

/// Returns the text: `content` as a string or as an array of parts, or else the refusal.
fn text(message: &Map<String, Value>) -> String {
    let text = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(part_text).collect(),
        _ => String::new(),
    };
    if text.is_empty() { refusal(message).unwrap_or_default().to_owned() } else { text }
}

pub(super) fn part_text(part: &Value) -> Option<&str> {
    part.as_str().or_else(|| part.get("text")?.as_str())
}

/// Returns the message to send back: all its keys, including unknown ones, corrected if the API would reject its
/// own output.
fn echo(message: &Map<String, Value>, text: &str, calls: Vec<Value>) -> Value {
    let mut echo = message.clone();
    // Some servers reject the nulls that they write.
    echo.retain(|key, value| key == "content" || !value.is_null());
    // Citations are not part of a request, and some servers reject them.
    echo.shift_remove("annotations");
    echo.insert("role".into(), "assistant".into());
    if calls.is_empty() {
        echo.shift_remove("tool_calls");
        if echo.get("content").is_none_or(Value::is_null) {
            echo.insert("content".into(), text.into());
        }
    } else {
        echo.insert("tool_calls".into(), calls.into());
        echo.entry("content").or_insert(Value::Null);
    }
    Value::Object(echo)
}

fn echo_call(entry: &Map<String, Value>, requested: &RequestedCall) -> Value {
    let mut echo = entry.clone();
    echo.retain(|_, value| !value.is_null());
    echo.insert("id".into(), requested.call.id.as_str().into());
    echo.insert("type".into(), "function".into());
    let mut function = function(entry).cloned().unwrap_or_default();
    function.insert("name".into(), echo_name(&requested.call.tool).into());
    // Servers that insert the arguments into a template parse them again, and return 500 for invalid ones in every
    // later request. The answer of the call reports the problem to the model.
    if requested.problem.is_some() || !function.get("arguments").is_some_and(is_object_text) {
        function.insert("arguments".into(), echo_arguments(requested).to_string().into());
    }
    echo.insert("function".into(), function.into());
    Value::Object(echo)
}

fn function(entry: &Map<String, Value>) -> Option<&Map<String, Value>> {
    entry.get("function")?.as_object()
}

/// Returns the message for a reply of another vendor.
pub(super) fn rebuilt(reply: &Reply) -> Value {
    let calls: Vec<_> = reply
        .calls
        .iter()
        .map(|requested| {
            let arguments = echo_arguments(requested).to_string();
            let function = json!({ "name": echo_name(&requested.call.tool), "arguments": arguments });
            json!({ "id": requested.call.id, "type": "function", "function": function })
        })
        .collect();
    if calls.is_empty() {
        return json!({ "role": "assistant", "content": reply.text });
    }
    let content = if reply.text.is_empty() { Value::Null } else { reply.text.as_str().into() };
    json!({ "role": "assistant", "content": content, "tool_calls": calls })
}

#[cfg(test)]
mod tests;
