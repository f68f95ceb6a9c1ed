//! Makes the thinking parameter and the conversation of a request consistent, since the API checks them together:
//! an open turn begins with thinking if thinking is enabled, and contains none if it is disabled.

use serde_json::{Map, Value, json};

use super::request::{NO_WORDS, is_by_budget};

/// The types of thinking blocks.
const THOUGHTS: &[&str] = &["thinking", "redacted_thinking"];

/// Removes all thinking blocks if thinking is off: disabled, not requested, or enabled although the open turn began
/// without it. In the last case, removes the parameter too.
pub(super) fn settle(body: &mut Map<String, Value>, model: &str) {
    let mode = body.get("thinking").and_then(|thinking| thinking.get("type")?.as_str()).map(str::to_owned);
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    let Some(messages) = messages else { return };
    let is_off = match mode.as_deref() {
        Some("enabled") => open_turn(messages).is_some_and(|first| !begins_with_thought(first)),
        Some("disabled") => true,
        // Later models think by default.
        _ => mode.is_none() && is_by_budget(model),
    };
    if !is_off {
        return;
    }
    for message in messages.iter_mut().filter(|message| is_of(message, "assistant")) {
        let Some(content) = message.get_mut("content").and_then(Value::as_array_mut) else { continue };
        content.retain(|block| !is_thought(block));
        if content.is_empty() {
            content.push(json!({ "type": "text", "text": NO_WORDS }));
        }
    }
    if mode.as_deref() == Some("enabled") {
        body.shift_remove("thinking");
    }
}

/// Returns the first message of the open turn: the one after the last prompt of a person.
fn open_turn(messages: &[Value]) -> Option<&Value> {
    let has = |message: &Value, is_meant: &dyn Fn(bool) -> bool| {
        let blocks = message.get("content").and_then(Value::as_array).into_iter().flatten();
        blocks.map(|block| is_kind(block, "tool_result")).any(is_meant)
    };
    let (last, before) = messages.split_last()?;
    if !is_of(last, "assistant") && !has(last, &|is_answer| is_answer) {
        return None;
    }
    let is_prompt = |message: &Value| is_of(message, "user") && has(message, &|is_answer| !is_answer);
    let begin = before.iter().rposition(is_prompt).map_or(0, |place| place + 1);
    messages.get(begin..)?.iter().find(|message| is_of(message, "assistant"))
}

fn begins_with_thought(message: &Value) -> bool {
    message.get("content").and_then(|content| content.get(0)).is_some_and(is_thought)
}

fn is_thought(block: &Value) -> bool {
    THOUGHTS.iter().any(|kind| is_kind(block, kind))
}

fn is_kind(block: &Value, kind: &str) -> bool {
    block.get("type").and_then(Value::as_str) == Some(kind)
}

fn is_of(message: &Value, role: &str) -> bool {
    message.get("role").and_then(Value::as_str) == Some(role)
}
