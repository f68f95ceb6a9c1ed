//! Reads the items of a response: its text, its calls, and the form in which they go back. Never fails: what cannot be
//! read becomes a problem for the model.

use serde_json::{Map, Value, json};

use super::VENDOR;
use crate::provider::calls::{self, echo_arguments, echo_name, is_object_text, unique_id};
use crate::provider::{Reply, RequestedCall};

/// Between two messages of one response: a remark on the way, and the answer.
pub(super) const BETWEEN: &str = "\n\n";

/// Reads `output`. `cut` says that the limit of output tokens ended it; `earlier` is how many calls the conversation
/// holds already, from which missing ids are made.
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
    // Thoughts that lead to nothing are refused when they come back.
    while echoes.last().and_then(Value::as_object).is_some_and(|item| kind(item) == "reasoning") {
        echoes.pop();
    }
    let raw = json!({ "output": echoes });
    Reply { text: text(output), calls, raw, vendor: VENDOR.into(), ..Reply::default() }
}

pub(super) fn kind(item: &Map<String, Value>) -> &str {
    item.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The text of all messages; where there is none, what was said in its place.
fn text(output: &[Value]) -> String {
    let texts: Vec<String> = output.iter().map(|item| parts(item, "text").collect()).collect();
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    if texts.is_empty() { output.iter().filter_map(refusal).collect() } else { texts.join(BETWEEN) }
}

/// Why the model declined, where `item` says it did.
pub(super) fn refusal(item: &Value) -> Option<&str> {
    parts(item, "refusal").find(|text| !text.is_empty())
}

/// The parts of a message that have `key`.
fn parts<'v>(item: &'v Value, key: &'static str) -> impl Iterator<Item = &'v str> {
    let is_message = item.get("type").and_then(Value::as_str) == Some("message");
    let content = item.get("content").filter(|_| is_message).and_then(Value::as_array);
    content.into_iter().flatten().filter_map(move |part| part.get(key)?.as_str())
}

fn requested_call(item: &Map<String, Value>, id: String) -> RequestedCall {
    let part = |name| item.get(name).unwrap_or(&Value::Null);
    calls::requested_call(id, part("name").as_str().unwrap_or_default(), part("arguments"))
}

/// The call as it goes back, mended where the same API would not take back what it gave.
fn echo_call(item: &Map<String, Value>, requested: &RequestedCall) -> Value {
    let mut echo = without_nulls(item);
    echo.insert("call_id".into(), requested.call.id.as_str().into());
    echo.insert("name".into(), echo_name(&requested.call.tool).into());
    if requested.problem.is_some() || !echo.get("arguments").is_some_and(is_taken_back) {
        echo.insert("arguments".into(), echo_arguments(requested).to_string().into());
    }
    echo.into()
}

/// Whether the API takes these arguments back as they came.
fn is_taken_back(arguments: &Value) -> bool {
    arguments.as_str().is_some_and(|text| text.trim().is_empty()) || is_object_text(arguments)
}

/// What the model thought, if it comes with its content: what is known by its id alone the vendor has not kept.
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
