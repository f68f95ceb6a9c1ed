//! A streamed `generateContent` on its way to becoming a whole one. Every chunk is a response of its
//! own: their parts are strung together, and the last word on everything else counts.

use serde_json::{Map, Value, json};

use super::reply::{is_blank, is_thought, text};
use crate::provider::body::reported_error;
use crate::provider::dialect::{Fold, Piece};
use crate::provider::error::Failure;

/// The response so far.
#[derive(Default)]
pub(super) struct Content {
    body: Map<String, Value>,
    candidate: Map<String, Value>,
    parts: Vec<Value>,
}

impl Fold for Content {
    fn take(&mut self, frame: Value, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        reported_error(&frame)?;
        let Value::Object(mut frame) = frame else {
            return Err(Failure::Malformed("a chunk is not an object".into()));
        };
        if let Some(Value::Array(candidates)) = frame.shift_remove("candidates")
            && let Some(Value::Object(mut candidate)) = candidates.into_iter().next()
        {
            self.content(candidate.shift_remove("content"), pieces);
            self.candidate.extend(candidate);
        }
        self.body.extend(frame);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        let is_blocked =
            self.body.get("promptFeedback").is_some_and(|pieces| pieces.get("blockReason").is_some());
        self.candidate.get("finishReason").is_some_and(Value::is_string) || is_blocked
    }

    fn body(self: Box<Self>) -> Value {
        let (mut body, mut candidate) = (self.body, self.candidate);
        if !candidate.is_empty() || !self.parts.is_empty() {
            candidate.insert("content".into(), json!({ "role": "model", "parts": self.parts }));
            body.insert("candidates".into(), vec![Value::Object(candidate)].into());
        }
        body.into()
    }
}

impl Content {
    fn content(&mut self, content: Option<Value>, pieces: &mut Vec<Piece>) {
        let parts = content.and_then(|mut content| content.get_mut("parts").map(Value::take));
        let Some(Value::Array(parts)) = parts else { return };
        for part in parts {
            let Value::Object(part) = part else { continue };
            if let Some(text) = text(&part).map(str::to_owned) {
                pieces.push(if is_thought(&part) { Piece::Thought(text) } else { Piece::Text(text) });
            }
            self.add(part);
        }
    }

    /// Adds a part: to the text before it, where neither has a signature, which is of that part alone.
    fn add(&mut self, part: Map<String, Value>) {
        let is_plain = |part: &Map<String, Value>| {
            text(part).is_some() && part.keys().all(|key| matches!(key.as_str(), "text" | "thought"))
        };
        let last = self.parts.last_mut().and_then(Value::as_object_mut);
        match last.filter(|last| is_plain(last) && is_plain(&part) && is_thought(last) == is_thought(&part)) {
            Some(last) => {
                let whole = [text(last), text(&part)].into_iter().flatten().collect::<String>();
                last.insert("text".into(), whole.into());
            }
            None if is_blank(&part) => {}
            None => self.parts.push(part.into()),
        }
    }
}
