//! A streamed chat completion on its way to becoming a whole one. Every server has its own idea of
//! what a chunk may leave out; what is missing never ends a turn.

use serde_json::{Map, Value, json};

use super::reply::part_text;
use crate::provider::body::reported_error;
use crate::provider::dialect::{Fold, Piece};
use crate::provider::error::Failure;

/// Keys whose value names something: said again in a later chunk, it does not grow.
const NAMES: &[&str] = &["id", "type", "role", "index", "format", "name"];
/// Where servers put what a model thinks.
const THOUGHTS: &[&str] = &["reasoning_content", "reasoning"];
/// Calls of one turn that are put together: more than any model makes, and few enough to look through.
const MAX_CALLS: usize = 1024;

/// The answer so far.
#[derive(Default)]
pub(super) struct Completion {
    body: Map<String, Value>,
    message: Map<String, Value>,
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
        let (mut body, mut message) = (self.body, self.message);
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten().filter_map(Value::as_object_mut) {
            call.shift_remove("index");
        }
        if self.has_choice {
            let choice = json!({ "message": message, "finish_reason": self.finish });
            body.insert("choices".into(), vec![choice].into());
        }
        body.into()
    }
}

impl Completion {
    fn choice(&mut self, mut choice: Map<String, Value>, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        self.has_choice = true;
        if let Some(finish) = choice.shift_remove("finish_reason").filter(|value| !value.is_null()) {
            self.finish = Some(finish);
        }
        // Some servers end a stream with the whole message.
        let delta = choice.shift_remove("delta");
        if let Some(Value::Object(delta)) = delta {
            push_pieces(&delta, pieces);
            for (key, value) in delta {
                if key == "tool_calls" {
                    self.calls(value)?;
                } else {
                    join(&mut self.message, key, value);
                }
            }
        }
        // After the delta, which may hold the beginning of what went wrong.
        reported_error(&Value::Object(choice))
    }

    fn calls(&mut self, deltas: Value) -> Result<(), Failure> {
        let Value::Array(deltas) = deltas else { return Ok(()) };
        let calls = self.message.entry("tool_calls").or_insert_with(|| json!([]));
        let Value::Array(calls) = calls else { return Ok(()) };
        for delta in deltas {
            let Value::Object(delta) = delta else { continue };
            let place = place(calls, &delta);
            if place >= MAX_CALLS {
                return Err(Failure::Malformed(format!("more than {MAX_CALLS} calls in a turn")));
            }
            if place >= calls.len() {
                calls.push(json!({}));
            }
            if let Some(Value::Object(call)) = calls.get_mut(place) {
                add(call, delta);
            }
        }
        Ok(())
    }
}

/// What a delta tells a person.
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

/// Which of `calls` a delta goes on with; the one after the last where it begins another.
fn place(calls: &[Value], delta: &Map<String, Value>) -> usize {
    let id = delta.get("id").filter(|id| is_text(id));
    let index = delta.get("index").filter(|index| index.is_u64());
    let found = calls.iter().rposition(|call| match (index, id) {
        // Some servers number every call 0: then the ids tell them apart.
        (Some(_), Some(id)) if call.get("id").is_some_and(is_text) => call.get("id") == Some(id),
        (Some(index), _) => call.get("index") == Some(index),
        (None, Some(id)) => call.get("id") == Some(id),
        (None, None) => true,
    });
    // Without number and id, a name begins the next call.
    let begins = index.is_none() && id.is_none() && delta.get("function").is_some_and(has_name);
    found.filter(|_| !begins).unwrap_or(calls.len())
}

fn has_name(function: &Value) -> bool {
    function.get("name").is_some_and(is_text)
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// Adds a delta to a call.
fn add(call: &mut Map<String, Value>, delta: Map<String, Value>) {
    for (key, value) in delta {
        match (key.as_str(), value) {
            ("function", Value::Object(function)) => {
                let own = call.entry("function").or_insert_with(|| json!({}));
                if let Value::Object(own) = own {
                    for (key, value) in function {
                        add_to_function(own, key, value);
                    }
                }
            }
            (_, value) => join(call, key, value),
        }
    }
}

/// A name comes at once, in pieces, or again with every chunk.
fn add_to_function(function: &mut Map<String, Value>, key: String, value: Value) {
    match (function.get_mut(&key), value) {
        (Some(Value::String(own)), Value::String(more)) if key != "name" || *own != more => {
            own.push_str(&more);
        }
        (Some(own), Value::Null) if !own.is_null() => {}
        (Some(_), Value::String(_)) => {}
        (_, value) => {
            function.insert(key, value);
        }
    }
}

/// Joins a value to what came of it before: texts grow, arrays too, and the rest is replaced.
fn join(object: &mut Map<String, Value>, key: String, value: Value) {
    if value.is_null() && object.contains_key(&key) {
        return;
    }
    match (object.get_mut(&key), value) {
        (Some(Value::String(own)), Value::String(more)) if !NAMES.contains(&key.as_str()) => {
            own.push_str(&more);
        }
        (Some(Value::Array(own)), Value::Array(more)) => join_items(own, more),
        (Some(Value::Object(own)), Value::Object(more)) => {
            for (key, value) in more {
                join(own, key, value);
            }
        }
        // Text first and parts later: the text becomes a part.
        (Some(own @ Value::String(_)), Value::Array(more)) => {
            let mut parts = vec![json!({ "type": "text", "text": own.take() })];
            join_items(&mut parts, more);
            *own = parts.into();
        }
        (Some(Value::Array(own)), Value::String(more)) => {
            join_item(own, json!({ "type": "text", "text": more }));
        }
        // What was named is not unnamed by an empty text.
        (Some(Value::String(own)), Value::String(more)) if more.is_empty() && !own.is_empty() => {}
        (_, value) => {
            object.insert(key, value);
        }
    }
}

fn join_items(items: &mut Vec<Value>, more: Vec<Value>) {
    for item in more {
        join_item(items, item);
    }
}

/// Adds an item to an array: to the last where they have one number or are both text.
fn join_item(items: &mut Vec<Value>, item: Value) {
    match (items.last_mut(), item) {
        (Some(Value::Object(last)), Value::Object(item)) if goes_on(last, &item) => {
            for (key, value) in item {
                join(last, key, value);
            }
        }
        (_, item) => items.push(item),
    }
}

fn goes_on(last: &Map<String, Value>, item: &Map<String, Value>) -> bool {
    let same = |key| item.get(key).is_some_and(|value| last.get(key) == Some(value));
    let is_plain = |part: &Map<String, Value>| part.get("type") == Some(&"text".into()) && part.len() == 2;
    (same("index") && (same("type") || !item.contains_key("type"))) || (is_plain(last) && is_plain(item))
}

#[cfg(test)]
mod tests;
