//! A streamed chat on its way to becoming a whole one: texts grow, calls are added, and the last line
//! has the counts.

use serde_json::{Map, Value};

use crate::provider::body::reported_error;
use crate::provider::dialect::{Fold, Piece};
use crate::provider::error::Failure;

/// The answer so far.
#[derive(Default)]
pub(super) struct Chat {
    body: Map<String, Value>,
    message: Map<String, Value>,
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
            message.into_iter().for_each(|(key, value)| self.join(key, value));
        }
        self.body.extend(frame);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.body.get("done") == Some(&Value::Bool(true))
    }

    fn body(self: Box<Self>) -> Value {
        let mut body = self.body;
        if !self.message.is_empty() {
            body.insert("message".into(), self.message.into());
        }
        body.into()
    }
}

impl Chat {
    fn join(&mut self, key: String, value: Value) {
        match (self.message.get_mut(&key), value) {
            (Some(_), Value::Null) => {}
            (Some(Value::String(own)), Value::String(more)) if key != "role" => own.push_str(&more),
            (Some(Value::Array(own)), Value::Array(more)) => own.extend(more),
            (_, value) => drop(self.message.insert(key, value)),
        }
    }
}
