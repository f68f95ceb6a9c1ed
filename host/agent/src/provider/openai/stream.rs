//! Folds a streamed chat completion into a complete one. Servers differ in what a chunk contains; a missing member
//! never ends a turn.

use serde_json::{Map, Value, json};

use super::reply::part_text;
use crate::provider::codes::reported_error;
use crate::provider::dialect::{Fold, Piece};
use crate::provider::error::Failure;
use crate::provider::pieces::{MAX_ITEMS, Shape, join};

/// The keys of a model's thinking.
const THOUGHTS: &[&str] = &["reasoning_content", "reasoning"];
/// The calls of a chat message; Ollama uses this format too.
pub(in crate::provider) const CALL: Shape =
    Shape { is_call: Value::is_object, id: "id", function: Some("function"), arguments: "arguments" };

/// The answer so far.
#[derive(Default)]
pub(super) struct Completion {
    body: Map<String, Value>,
    message: Map<String, Value>,
    calls: Vec<Value>,
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
        let Self { mut body, mut message, mut calls, finish, has_choice } = *self;
        CALL.settle(&mut calls);
        for call in calls.iter_mut().filter_map(Value::as_object_mut) {
            call.shift_remove("index");
        }
        if !calls.is_empty() {
            message.insert("tool_calls".into(), calls.into());
        }
        if has_choice {
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
        // Some servers end a stream with the whole message, and some send nothing else.
        let whole =
            choice.shift_remove("message").filter(|_| self.message.is_empty() && self.calls.is_empty());
        let delta = choice.shift_remove("delta").filter(Value::is_object).or(whole);
        if let Some(Value::Object(delta)) = delta {
            push_pieces(&delta, pieces);
            for (key, value) in delta {
                match value {
                    Value::Array(deltas) if key == "tool_calls" => self.calls(deltas)?,
                    value => join(&mut self.message, key, value),
                }
            }
        }
        // Checked after the delta, which may hold the beginning of an unusable answer.
        reported_error(&Value::Object(choice))?;
        // An answer with an error has no finish reason.
        self.finish = finish.filter(is_told).or(self.finish.take());
        Ok(())
    }

    fn calls(&mut self, deltas: Vec<Value>) -> Result<(), Failure> {
        for delta in deltas {
            let Value::Object(delta) = delta else { continue };
            if !CALL.add(&mut self.calls, delta) {
                return Err(Failure::Malformed(format!("more than {MAX_ITEMS} calls in a turn")));
            }
        }
        Ok(())
    }
}

/// Appends the visible parts of a delta.
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

#[cfg(test)]
mod tests;
