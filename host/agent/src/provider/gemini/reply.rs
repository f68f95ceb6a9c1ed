//! Reads the parts of a content: text, calls, and the form in which they go back, which is the one in
//! which they came. What a model thinks is not part of what it says.

use serde_json::{Map, Value, json};

use super::NAME;
use crate::provider::Reply;
use crate::provider::calls::{cut_off, echo_arguments, echo_name, requested_call, unique_id};

/// Reads `parts`. `cut` says that the limit of output tokens ended them; `earlier` is how many calls
/// the conversation holds already.
pub(super) fn decode(parts: &[Value], cut: bool, earlier: usize) -> Reply {
    let mut reply = Reply { vendor: NAME.into(), ..Reply::default() };
    let mut echoes = Vec::new();
    for part in parts.iter().filter_map(Value::as_object) {
        if let Some(call) = part.get("functionCall") {
            echoes.push(decode_call(part, call, &mut reply, earlier));
        } else {
            reply.text.push_str(text(part).filter(|_| !is_thought(part)).unwrap_or_default());
            echoes.extend(Some(part).filter(|part| !is_blank(part)).cloned());
        }
    }
    let ends_in_call = parts.last().is_some_and(|last| last.get("functionCall").is_some());
    if cut && ends_in_call {
        cut_off(&mut reply.calls);
    }
    reply.raw = json!({ "role": "model", "parts": echoes });
    reply
}

/// Adds a call to `reply`, and gives its part as it goes back.
fn decode_call(
    part: &Map<String, Value>,
    call: &Value,
    reply: &mut Reply,
    earlier: usize,
) -> Map<String, Value> {
    let field = |key| call.get(key).and_then(Value::as_str);
    let id = unique_id(field("id"), &reply.calls, earlier);
    let requested =
        requested_call(id, field("name").unwrap_or_default(), call.get("args").unwrap_or(&Value::Null));
    let mut echo = part.clone();
    if let Some(Value::Object(call)) = echo.get_mut("functionCall") {
        // An id that the vendor gave twice; haft's own are for itself.
        if field("id").is_some_and(|id| !id.is_empty()) {
            call.insert("id".into(), requested.call.id.as_str().into());
        }
        call.insert("name".into(), echo_name(&requested.call.tool).into());
        if !call.get("args").is_some_and(Value::is_object) {
            call.insert("args".into(), echo_arguments(&requested));
        }
    }
    reply.calls.push(requested);
    echo
}

pub(super) fn text(part: &Map<String, Value>) -> Option<&str> {
    part.get("text")?.as_str()
}

pub(super) fn is_thought(part: &Map<String, Value>) -> bool {
    part.get("thought") == Some(&Value::Bool(true))
}

/// Whether there is nothing in a part: an empty text that carries no signature is an error when sent back.
pub(super) fn is_blank(part: &Map<String, Value>) -> bool {
    text(part).is_some_and(str::is_empty) && !part.contains_key("thoughtSignature")
}
