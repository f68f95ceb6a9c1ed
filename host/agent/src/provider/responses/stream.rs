//! Folds a streamed response into a complete one. Each item is sent complete when it is done; earlier events are
//! for the person who watches, and for servers that never complete an item.

use serde_json::{Map, Value, json};

use super::{BETWEEN, kind};
use crate::provider::codes::reported_error;
use crate::provider::dialect::{Fold, Piece};
use crate::provider::error::Failure;
use crate::provider::pieces::{MAX_ITEMS, Shape};

const CALL: Shape = Shape {
    is_call: |item| item.get("type").and_then(Value::as_str) == Some("function_call"),
    id: "call_id",
    function: None,
    arguments: "arguments",
};
/// Members of an item that its last event may omit.
const KEPT: &[&str] = &["arguments", "call_id", "index", "name", "type"];
/// The mark of a complete item.
const DONE: &str = "\u{0}done";

#[derive(Default)]
pub(super) struct Response {
    items: Vec<Value>,
    body: Option<Map<String, Value>>,
    /// The index of the item with the latest text.
    texted: Option<u64>,
    /// The item and part of the latest thinking.
    thought: Option<(u64, u64)>,
}

impl Fold for Response {
    fn take(&mut self, frame: Value, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        let Value::Object(mut frame) = frame else {
            return Err(Failure::Malformed("an event is not an object".into()));
        };
        let kind = frame.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => self.push_text(&frame, pieces)?,
            "response.reasoning_summary_text.delta" => self.push_thought(&frame, "summary_index", pieces),
            "response.reasoning_text.delta" => self.push_thought(&frame, "content_index", pieces),
            "response.output_item.added" => self.push_item(&mut frame, false)?,
            "response.output_item.done" => self.push_item(&mut frame, true)?,
            "response.function_call_arguments.delta" => self.push_arguments(&frame, "delta"),
            "response.function_call_arguments.done" => self.push_arguments(&frame, "arguments"),
            "response.completed" | "response.incomplete" | "response.failed" => self.end(&kind, &mut frame),
            "error" if !frame.contains_key("error") => reported_error(&json!({ "error": frame }))?,
            _ => reported_error(&Value::Object(frame))?,
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.body.is_some()
    }

    fn is_over(&self) -> bool {
        self.is_complete()
    }

    /// Returns the body. The items of the stream take precedence: some servers do not repeat them at the end.
    fn body(self: Box<Self>) -> Value {
        let Self { mut items, body, .. } = *self;
        let mut body = body.unwrap_or_default();
        CALL.settle(&mut items);
        items.sort_by_key(|item| item.get("index").and_then(Value::as_u64));
        let is_done = items.iter().all(|item| item.get(DONE).is_some());
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.retain(|key, _| key != "index" && key != DONE);
        }
        let has_own = body.get("output").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
        if !items.is_empty() && (is_done || !has_own) {
            body.insert("output".into(), items.into());
        }
        body.into()
    }
}

impl Response {
    fn push_text(&mut self, frame: &Map<String, Value>, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        let Some(delta) = text(frame, "delta") else { return Ok(()) };
        let item = number(frame, "output_index");
        if self.texted.replace(item).is_some_and(|before| before != item) {
            pieces.push(Piece::Text(BETWEEN.into()));
        }
        pieces.push(Piece::Text(delta.to_owned()));
        let is_refusal = frame.get("type") == Some(&"response.refusal.delta".into());
        let key = if is_refusal { "refusal" } else { "text" };
        let place = match self.find("message", frame.get("output_index")) {
            Some(place) => place,
            None => self.insert(message(item))?,
        };
        let content = self.items.get_mut(place).filter(|item| item.get(DONE).is_none());
        let content =
            content.and_then(Value::as_object_mut).map(|item| item.entry("content").or_insert(Value::Null));
        if let Some(content) = content {
            grow(content, key, delta);
        }
        Ok(())
    }

    fn push_thought(&mut self, frame: &Map<String, Value>, part: &str, pieces: &mut Vec<Piece>) {
        let Some(delta) = text(frame, "delta") else { return };
        let place = (number(frame, "output_index"), number(frame, part));
        if self.thought.replace(place).is_some_and(|before| before != place) {
            pieces.push(Piece::Thought(BETWEEN.into()));
        }
        pieces.push(Piece::Thought(delta.to_owned()));
    }

    /// Adds arguments, in pieces or all at the end.
    fn push_arguments(&mut self, frame: &Map<String, Value>, key: &str) {
        let Some(arguments) = text(frame, key) else { return };
        let mut piece = numbered(Map::from_iter([("arguments".to_owned(), arguments.into())]), frame);
        piece.extend(text(frame, "name").map(|name| ("name".to_owned(), name.into())));
        let place = CALL.place(&self.items, &piece);
        let item = place.and_then(|place| self.items.get_mut(place)).and_then(Value::as_object_mut);
        match item.filter(|item| !item.contains_key(DONE)) {
            Some(item) if key == "delta" => CALL.join(item, piece),
            Some(item) => item.extend(piece),
            None => {}
        }
    }

    fn push_item(&mut self, frame: &mut Map<String, Value>, is_done: bool) -> Result<(), Failure> {
        let Some(Value::Object(item)) = frame.shift_remove("item") else { return Ok(()) };
        let kind = kind(&item).to_owned();
        let mut item = numbered(item, frame);
        item.retain(|_, value| !is_done || !value.is_null());
        if is_done {
            item.insert(DONE.into(), true.into());
        }
        let place = match kind.as_str() {
            "function_call" => CALL.place(&self.items, &item),
            _ => self.find(&kind, item.get("index")),
        };
        match place.and_then(|place| self.items.get_mut(place)).and_then(Value::as_object_mut) {
            Some(known) if is_done => {
                known.retain(|key, _| KEPT.contains(&key.as_str()));
                known.extend(item);
            }
            Some(known) if !known.contains_key(DONE) => CALL.join(known, item),
            Some(_) => {}
            None => drop(self.insert(item)?),
        }
        Ok(())
    }

    /// Returns the position of the last item with this type and index.
    fn find(&self, kind: &str, index: Option<&Value>) -> Option<usize> {
        let index = index.filter(|index| index.is_u64())?;
        let is_match =
            |item: &Value| item.get("index") == Some(index) && item.get("type") == Some(&kind.into());
        self.items.iter().rposition(is_match)
    }

    fn insert(&mut self, mut item: Map<String, Value>) -> Result<usize, Failure> {
        let place = self.items.len();
        if place >= MAX_ITEMS {
            return Err(Failure::Malformed(format!("more than {MAX_ITEMS} items in a response")));
        }
        item.entry("index").or_insert_with(|| place.into());
        self.items.push(item.into());
        Ok(place)
    }

    fn end(&mut self, kind: &str, frame: &mut Map<String, Value>) {
        let response = frame.shift_remove("response");
        let mut body = response.and_then(|response| response.as_object().cloned()).unwrap_or_default();
        if body.get("status").is_none_or(Value::is_null) {
            body.insert("status".into(), kind.trim_start_matches("response.").into());
        }
        self.body = Some(body);
    }
}

fn numbered(mut item: Map<String, Value>, frame: &Map<String, Value>) -> Map<String, Value> {
    let index = frame.get("output_index").filter(|index| index.is_u64());
    item.extend(index.map(|index| ("index".to_owned(), index.clone())));
    item
}

fn message(index: u64) -> Map<String, Value> {
    let message = json!({ "type": "message", "role": "assistant", "content": [], "index": index });
    message.as_object().cloned().unwrap_or_default()
}

/// Appends a piece to the last part of a message, or begins a part.
fn grow(content: &mut Value, key: &str, delta: &str) {
    if !content.is_array() {
        *content = json!([]);
    }
    let Some(parts) = content.as_array_mut() else { return };
    if let Some(Value::String(text)) = parts.last_mut().and_then(|part| part.get_mut(key)) {
        text.push_str(delta);
    } else {
        let kind = if key == "text" { "output_text" } else { "refusal" };
        parts.push(json!({ "type": kind, key: delta }));
    }
}

fn text<'f>(frame: &'f Map<String, Value>, key: &str) -> Option<&'f str> {
    frame.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn number(frame: &Map<String, Value>, key: &str) -> u64 {
    frame.get(key).and_then(Value::as_u64).unwrap_or(0)
}
