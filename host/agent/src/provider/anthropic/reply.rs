//! Reads the content blocks of a message: text, calls, and the form in which both are sent back. Keeps blocks of
//! other types unmodified. Never fails: an unreadable block becomes an error message for the model.

use serde_json::{Map, Value, json};

use super::NAME;
use crate::provider::calls::{cut_off, echo_arguments, echo_name, requested_call, unique_id};
use crate::provider::{Reply, RequestedCall};

/// Reads `blocks`. `cut`: the limit of output tokens ended them. `earlier`: the number of calls already in the
/// conversation.
pub(super) fn decode(blocks: &[Value], cut: bool, earlier: usize) -> Reply {
    let mut reply = Reply { vendor: NAME.into(), ..Reply::default() };
    let mut echoes = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let Some(block) = block.as_object() else { continue };
        match kind(block) {
            "tool_use" => {
                let call = call(block, &reply.calls, earlier);
                echoes.push(echo_call(block, &call));
                reply.calls.push(call);
            }
            "text" => {
                let text = block.get("text").and_then(Value::as_str).unwrap_or_default();
                reply.text.push_str(gap(&reply.text, index.checked_sub(1).and_then(|at| blocks.get(at))));
                reply.text.push_str(text);
                echoes.extend(Some(block).filter(|_| !text.trim().is_empty()).cloned());
            }
            // The vendor rejects thinking without a signature, and a server that does not sign does not need it
            // back.
            "thinking" if !has_signature(block) => {}
            _ => echoes.push(block.clone()),
        }
    }
    let ends_in_call = blocks.last().and_then(Value::as_object).is_some_and(|last| kind(last) == "tool_use");
    if cut && ends_in_call {
        cut_off(&mut reply.calls);
    }
    reply.raw = json!({ "role": "assistant", "content": echoes });
    reply
}

/// Returns the separator between `text` and a text block that follows `before`: consecutive text blocks are one
/// text (citations split them), others are separate paragraphs.
pub(super) fn gap(text: &str, before: Option<&Value>) -> &'static str {
    let goes_on = before.is_some_and(|before| before.get("type") == Some(&"text".into()));
    if text.is_empty() || goes_on { "" } else { "\n\n" }
}

fn kind(block: &Map<String, Value>) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn has_signature(block: &Map<String, Value>) -> bool {
    block.get("signature").and_then(Value::as_str).is_some_and(|signature| !signature.is_empty())
}

fn call(block: &Map<String, Value>, before: &[RequestedCall], earlier: usize) -> RequestedCall {
    let text = |key| block.get(key).and_then(Value::as_str);
    let id = unique_id(text("id"), before, earlier);
    requested_call(id, text("name").unwrap_or_default(), block.get("input").unwrap_or(&Value::Null))
}

/// Returns the call unmodified except where the API would reject its own output.
fn echo_call(block: &Map<String, Value>, requested: &RequestedCall) -> Map<String, Value> {
    let mut echo = block.clone();
    echo.insert("id".into(), requested.call.id.as_str().into());
    echo.insert("name".into(), echo_name(&requested.call.tool).into());
    echo.insert("input".into(), echo_arguments(requested));
    echo
}
