//! Reads the parts of a content, and folds a streamed `generateContent` response into a complete one: every
//! chunk is a response of its own. The thinking of a model is left out of its text.

use serde_json::{Map, Value, json};

use super::NAME;
use crate::provider::Reply;
use crate::provider::calls::{cut_off, echo_arguments, echo_name, requested_call, unique_id};
use crate::provider::codes::reported_error;
use crate::provider::dialect::{Fold, Piece};
use crate::provider::error::Failure;
use crate::provider::pieces::{MAX_ITEMS, Shape};

/// The part of a call.
const CALL: Shape = Shape {
    is_call: |part| part.get("functionCall").is_some(),
    id: "id",
    function: Some("functionCall"),
    arguments: "args",
};

/// The response so far.
#[derive(Default)]
pub(super) struct Content {
    body: Map<String, Value>,
    candidate: Map<String, Value>,
    parts: Vec<Value>,
}

impl Fold for Content {
    fn take(&mut self, frame: Value, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        // Without `alt=sse`, the response is one array.
        if let Value::Array(frames) = frame {
            return frames.into_iter().try_for_each(|frame| self.take(frame, pieces));
        }
        reported_error(&frame)?;
        let Value::Object(mut frame) = frame else {
            return Err(Failure::Malformed("a chunk is not an object".into()));
        };
        if let Some(Value::Array(candidates)) = frame.shift_remove("candidates")
            && let Some(Value::Object(mut candidate)) = candidates.into_iter().next()
        {
            self.content(candidate.shift_remove("content"), pieces)?;
            self.candidate.extend(candidate.into_iter().filter(|(_, value)| !value.is_null()));
        }
        self.body.extend(frame.into_iter().filter(|(_, value)| !value.is_null()));
        Ok(())
    }

    fn is_complete(&self) -> bool {
        let is_blocked =
            self.body.get("promptFeedback").is_some_and(|feedback| feedback.get("blockReason").is_some());
        self.candidate.get("finishReason").is_some_and(Value::is_string) || is_blocked
    }

    fn body(self: Box<Self>) -> Value {
        let Self { mut body, mut candidate, mut parts } = *self;
        CALL.settle(&mut parts);
        if !candidate.is_empty() || !parts.is_empty() {
            candidate.insert("content".into(), json!({ "role": "model", "parts": parts }));
            body.insert("candidates".into(), vec![Value::Object(candidate)].into());
        }
        body.into()
    }
}

impl Content {
    fn content(&mut self, content: Option<Value>, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        let parts = content.and_then(|mut content| content.get_mut("parts").map(Value::take));
        let Some(Value::Array(parts)) = parts else { return Ok(()) };
        for part in parts {
            let Value::Object(mut part) = part else { continue };
            part.retain(|_, value| !value.is_null());
            if let Some(text) = text(&part).map(str::to_owned) {
                pieces.push(if is_thought(&part) { Piece::Thought(text) } else { Piece::Text(text) });
            }
            if !self.add(part) {
                return Err(Failure::Malformed(format!("more than {MAX_ITEMS} parts in a turn")));
            }
        }
        Ok(())
    }

    /// Adds a part: appends it to the call it continues, or to the previous text if neither has a signature, since
    /// a signature covers its own part alone.
    fn add(&mut self, part: Map<String, Value>) -> bool {
        if part.contains_key("functionCall") {
            return CALL.add(&mut self.parts, part);
        }
        let is_plain = |part: &Map<String, Value>| {
            text(part).is_some() && part.keys().all(|key| matches!(key.as_str(), "text" | "thought"))
        };
        let has_room = self.parts.len() < MAX_ITEMS;
        let last = self.parts.last_mut().and_then(Value::as_object_mut);
        match last.filter(|last| is_plain(last) && is_plain(&part) && is_thought(last) == is_thought(&part)) {
            Some(last) => {
                if let (Some(Value::String(before)), Some(more)) = (last.get_mut("text"), text(&part)) {
                    before.push_str(more);
                }
            }
            None if is_blank(&part) => {}
            None if has_room => self.parts.push(part.into()),
            None => return false,
        }
        true
    }
}

/// Reads `parts`. `cut`: the limit of output tokens ended them. `earlier`: the number of calls already in the
/// conversation.
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

/// Adds a call to `reply`, and returns its part in the form to send back.
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
        // Replaces a duplicate id of the vendor; an id generated by haft is not sent.
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

/// Whether a part is empty: the API rejects an empty text without signature.
pub(super) fn is_blank(part: &Map<String, Value>) -> bool {
    text(part).is_some_and(str::is_empty) && !part.contains_key("thoughtSignature")
}
