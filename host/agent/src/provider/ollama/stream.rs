//! Folds a streamed chat into a complete response: texts are appended, calls are added, and the last line has the
//! token counts.

use serde_json::{Map, Value};

use crate::provider::codes::reported_error;
use crate::provider::dialect::{Fold, Piece};
use crate::provider::error::Failure;
use crate::provider::openai::CALL;
use crate::provider::pieces::{MAX_ITEMS, join};

/// The answer so far.
#[derive(Default)]
pub(super) struct Chat {
    body: Map<String, Value>,
    message: Map<String, Value>,
    calls: Vec<Value>,
}

impl Fold for Chat {
    fn take(&mut self, frame: Value, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        reported_error(&frame)?;
        let Value::Object(mut frame) = frame else {
            return Err(Failure::Malformed("a line is not an object".into()));
        };
        if let Some(Value::Object(message)) = frame.shift_remove("message") {
            let text = |key| message.get(key).and_then(Value::as_str).map(str::to_owned);
            pieces.extend(text("thinking").map(Piece::Thought));
            pieces.extend(text("content").map(Piece::Text));
            message.into_iter().try_for_each(|(key, value)| self.join(key, value))?;
        }
        self.body.extend(frame.into_iter().filter(|(_, value)| !value.is_null()));
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.body.get("done") == Some(&Value::Bool(true))
    }

    fn is_over(&self) -> bool {
        self.is_complete()
    }

    fn body(self: Box<Self>) -> Value {
        let Self { mut body, mut message, mut calls } = *self;
        CALL.settle(&mut calls);
        if !calls.is_empty() {
            message.insert("tool_calls".into(), calls.into());
        }
        if !message.is_empty() {
            body.insert("message".into(), message.into());
        }
        body.into()
    }
}

impl Chat {
    fn join(&mut self, key: String, value: Value) -> Result<(), Failure> {
        match value {
            Value::Array(entries) if key == "tool_calls" => {
                let mut entries = entries.into_iter().filter_map(|entry| match entry {
                    Value::Object(entry) => Some(entry),
                    _ => None,
                });
                let fits = entries.all(|entry| CALL.add(&mut self.calls, entry));
                fits.then_some(())
                    .ok_or_else(|| Failure::Malformed(format!("more than {MAX_ITEMS} calls in a turn")))
            }
            value => {
                join(&mut self.message, key, value);
                Ok(())
            }
        }
    }
}
