//! A streamed response on its way to becoming a whole one. Each item comes complete when it is done; what comes before
//! that is for the person who watches.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::reply::BETWEEN;
use crate::provider::body::reported_error;
use crate::provider::dialect::{Fold, Piece};
use crate::provider::error::Failure;

/// Items of one response: more than any model makes.
const MAX_ITEMS: usize = 1024;

/// The response so far.
#[derive(Default)]
pub(super) struct Response {
    items: BTreeMap<u64, Value>,
    body: Option<Map<String, Value>>,
    /// The item whose text came last.
    texted: Option<u64>,
    /// The item and part whose thoughts came last.
    thought: Option<(u64, u64)>,
}

impl Fold for Response {
    fn take(&mut self, frame: Value, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        let Value::Object(mut frame) = frame else {
            return Err(Failure::Malformed("an event is not an object".into()));
        };
        let kind = frame.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => self.push_text(&frame, pieces),
            "response.reasoning_summary_text.delta" => self.push_thought(&frame, "summary_index", pieces),
            "response.reasoning_text.delta" => self.push_thought(&frame, "content_index", pieces),
            "response.output_item.done" => self.push_item(&mut frame)?,
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.body = frame.shift_remove("response").and_then(|response| match response {
                    Value::Object(response) => Some(response),
                    _ => None,
                });
            }
            "error" if !frame.contains_key("error") => reported_error(&json!({ "error": frame }))?,
            _ => reported_error(&Value::Object(frame))?,
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.body.is_some()
    }

    /// Items count as they were when they were done: some servers repeat none of them at the end.
    fn body(self: Box<Self>) -> Value {
        let mut body = self.body.unwrap_or_default();
        if !self.items.is_empty() {
            body.insert("output".into(), self.items.into_values().collect());
        }
        body.into()
    }
}

impl Response {
    fn push_text(&mut self, frame: &Map<String, Value>, pieces: &mut Vec<Piece>) {
        let Some(delta) = delta(frame) else { return };
        let item = number(frame, "output_index");
        if self.texted.replace(item).is_some_and(|before| before != item) {
            pieces.push(Piece::Text(BETWEEN.into()));
        }
        pieces.push(Piece::Text(delta.to_owned()));
    }

    fn push_thought(&mut self, frame: &Map<String, Value>, part: &str, pieces: &mut Vec<Piece>) {
        let Some(delta) = delta(frame) else { return };
        let place = (number(frame, "output_index"), number(frame, part));
        if self.thought.replace(place).is_some_and(|before| before != place) {
            pieces.push(Piece::Thought(BETWEEN.into()));
        }
        pieces.push(Piece::Thought(delta.to_owned()));
    }

    fn push_item(&mut self, frame: &mut Map<String, Value>) -> Result<(), Failure> {
        let Some(item) = frame.shift_remove("item") else { return Ok(()) };
        let place = frame.get("output_index").and_then(Value::as_u64).unwrap_or(self.items.len() as u64);
        self.items.insert(place, item);
        if self.items.len() > MAX_ITEMS {
            return Err(Failure::Malformed(format!("more than {MAX_ITEMS} items in a response")));
        }
        Ok(())
    }
}

fn delta(frame: &Map<String, Value>) -> Option<&str> {
    frame.get("delta").and_then(Value::as_str).filter(|delta| !delta.is_empty())
}

fn number(frame: &Map<String, Value>, key: &str) -> u64 {
    frame.get(key).and_then(Value::as_u64).unwrap_or(0)
}
