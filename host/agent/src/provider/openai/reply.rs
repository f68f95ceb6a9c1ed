//! Reads the assistant's message of a chat completion: its text, its calls, and the form in
//! which it goes back. Never fails: what cannot be read becomes a problem for the model.

use serde_json::{Map, Value, json};

use crate::provider::calls::{self, echo_arguments, echo_name, is_object_text, unique_id};
use crate::provider::{Reply, RequestedCall};

/// Reads `message`. `cut` says that the limit of output tokens ended it; `earlier` is how many
/// calls the conversation holds already, from which missing ids are made.
pub(super) fn decode(message: &Map<String, Value>, cut: bool, earlier: usize) -> Reply {
    let sent = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut calls: Vec<RequestedCall> = Vec::new();
    let mut echoes = Vec::new();
    for entry in sent.iter().filter_map(Value::as_object) {
        let id = unique_id(entry.get("id").and_then(Value::as_str), &calls, earlier);
        let requested = requested_call(entry, id);
        echoes.push(echo_call(entry, &requested));
        calls.push(requested);
    }
    if cut {
        calls::cut_off(&mut calls);
    }
    let text = text(message);
    Reply { raw: echo(message, &text, echoes), text, calls, ..Reply::default() }
}

/// Why the model declined, where it did.
pub(super) fn refusal(message: &Map<String, Value>) -> Option<&str> {
    let part = || {
        let parts = message.get("content")?.as_array()?;
        parts.iter().find_map(|part| part.get("refusal")?.as_str())
    };
    message.get("refusal").and_then(Value::as_str).or_else(part).filter(|text| !text.is_empty())
}

/// The text: `content` as a string or as an array of parts, or the refusal that takes its place.
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

/// The message as it goes back: everything that was sent, unknown keys included, and mended
/// where the same API would not take back what it gave.
fn echo(message: &Map<String, Value>, text: &str, calls: Vec<Value>) -> Value {
    let mut echo = message.clone();
    // A null says nothing, and some servers refuse to read back the ones they write.
    echo.retain(|key, value| key == "content" || !value.is_null());
    // Where a text came from is no part of a request, and some servers say so.
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
    // Servers that put the arguments into a template parse them again and answer 500 to what
    // they cannot parse, for the rest of the conversation. The model reads of it in the answer.
    if requested.problem.is_some() || !function.get("arguments").is_some_and(is_object_text) {
        function.insert("arguments".into(), echo_arguments(requested).to_string().into());
    }
    echo.insert("function".into(), function.into());
    Value::Object(echo)
}

fn function(entry: &Map<String, Value>) -> Option<&Map<String, Value>> {
    entry.get("function")?.as_object()
}

fn requested_call(entry: &Map<String, Value>, id: String) -> RequestedCall {
    let part = |name| function(entry).and_then(|function| function.get(name)).unwrap_or(&Value::Null);
    calls::requested_call(id, part("name").as_str().unwrap_or_default(), part("arguments"))
}

/// The message of a reply that another vendor gave.
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
