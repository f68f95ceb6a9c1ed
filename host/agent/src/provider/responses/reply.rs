//! Reads the items of a response: its text, its calls, and the form to send back. Never fails: unreadable items
//! become an error message for the model.

use serde_json::{Map, Value, json};

use super::VENDOR;
use crate::provider::calls::{self, echo_arguments, echo_name, is_object_text, unique_id};
use crate::provider::{Reply, RequestedCall};

/// The separator between two messages of one response.
pub(super) const BETWEEN: &str = "\n\n";

/// Reads `output`. `cut`: the limit of output tokens ended it. `earlier`: the number of calls already in the
/// conversation, from which missing ids are generated.
pub(super) fn decode(output: &[Value], cut: bool, earlier: usize) -> Reply {
    let mut calls: Vec<RequestedCall> = Vec::new();
    let mut echoes = Vec::new();
    for item in output.iter().filter_map(Value::as_object) {
        match kind(item) {
            "function_call" => {
                let id = unique_id(item.get("call_id").and_then(Value::as_str), &calls, earlier);
                let requested = requested_call(item, id);
                echoes.push(echo_call(item, &requested));
                calls.push(requested);
            }
            "reasoning" => echoes.extend(echo_reasoning(item)),
            _ => echoes.push(without_nulls(item).into()),
        }
    }
    if cut {
        calls::cut_off(&mut calls);
    }
    // The API rejects reasoning that no item follows.
    while echoes.last().and_then(Value::as_object).is_some_and(|item| kind(item) == "reasoning") {
        echoes.pop();
    }
    let raw = json!({ "output": echoes });
    Reply { text: text(output), calls, raw, vendor: VENDOR.into(), ..Reply::default() }
}

pub(super) fn kind(item: &Map<String, Value>) -> &str {
    item.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the text of all messages, or else the refusals.
fn text(output: &[Value]) -> String {
    let texts: Vec<String> = output.iter().map(|item| parts(item, "text").collect()).collect();
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    if texts.is_empty() { output.iter().filter_map(refusal).collect() } else { texts.join(BETWEEN) }
}

/// Returns the model's refusal in `item`, if any.
pub(super) fn refusal(item: &Value) -> Option<&str> {
    parts(item, "refusal").find(|text| !text.is_empty())
}

/// Returns the parts of a message that have `key`.
fn parts<'v>(item: &'v Value, key: &'static str) -> impl Iterator<Item = &'v str> {
    let is_message = item.get("type").and_then(Value::as_str) == Some("message");
    let content = item.get("content").filter(|_| is_message).and_then(Value::as_array);
    content.into_iter().flatten().filter_map(move |part| part.get(key)?.as_str())
}

fn requested_call(item: &Map<String, Value>, id: String) -> RequestedCall {
    let part = |name| item.get(name).unwrap_or(&Value::Null);
    calls::requested_call(id, part("name").as_str().unwrap_or_default(), part("arguments"))
}

/// Returns the call to send back, corrected where the API would reject its own output.
fn echo_call(item: &Map<String, Value>, requested: &RequestedCall) -> Value {
    let mut echo = without_nulls(item);
    echo.insert("call_id".into(), requested.call.id.as_str().into());
    echo.insert("name".into(), echo_name(&requested.call.tool).into());
    if requested.problem.is_some() || !echo.get("arguments").is_some_and(is_taken_back) {
        echo.insert("arguments".into(), echo_arguments(requested).to_string().into());
    }
    echo.into()
}

/// Whether the API accepts these arguments back.
fn is_taken_back(arguments: &Value) -> bool {
    arguments.as_str().is_some_and(|text| text.trim().is_empty()) || is_object_text(arguments)
}

/// Returns a reasoning item with its content; an item with an id alone is not stored at the vendor.
fn echo_reasoning(item: &Map<String, Value>) -> Option<Value> {
    let mut echo = without_nulls(item);
    echo.entry("summary").or_insert_with(|| json!([]));
    let has = |key: &str| match echo.get(key) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        _ => false,
    };
    (has("encrypted_content") || has("content")).then(|| echo.into())
}

fn without_nulls(item: &Map<String, Value>) -> Map<String, Value> {
    let mut item = item.clone();
    item.retain(|_, value| !value.is_null());
    item
}
