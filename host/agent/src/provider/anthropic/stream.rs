//! A streamed message on its way to becoming a whole one. Block for block it is kept as it came; an
//! event or a delta that is not known changes nothing.

use serde_json::{Map, Value, json};

use super::reply::gap;
use crate::provider::body::reported_error;
use crate::provider::dialect::{Fold, Piece};
use crate::provider::error::Failure;

/// Blocks of one message: more than any has, and few enough to make room for.
const MAX_BLOCKS: usize = 4096;

/// The message so far.
#[derive(Default)]
pub(super) struct Message {
    /// All but its content.
    rest: Map<String, Value>,
    blocks: Vec<Value>,
    /// The text so far is not empty: what comes next may need a gap.
    has_text: bool,
    is_over: bool,
}

impl Fold for Message {
    fn take(&mut self, mut frame: Value, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        reported_error(&frame)?;
        let kind = frame.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let index = frame.get("index").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
        let mut part = |key: &str| frame.get_mut(key).map(Value::take).unwrap_or_default();
        match kind.as_str() {
            "message_start" => self.start(part("message")),
            "content_block_start" => self.begin(index, part("content_block"), pieces)?,
            "content_block_delta" => self.add(index, &part("delta"), pieces),
            "message_delta" => self.end(part("delta"), part("usage")),
            "message_stop" => self.is_over = true,
            _ => {}
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.is_over
    }

    fn body(self: Box<Self>) -> Value {
        let (mut message, blocks) = (self.rest, self.blocks);
        message.insert("content".into(), blocks.into_iter().map(closed).collect());
        message.into()
    }
}

impl Message {
    fn start(&mut self, message: Value) {
        if let Value::Object(message) = message {
            self.rest = message;
        }
    }

    fn begin(&mut self, index: Option<usize>, block: Value, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        let index = index.unwrap_or(self.blocks.len());
        if index >= MAX_BLOCKS {
            return Err(Failure::Malformed(format!("more than {MAX_BLOCKS} blocks in a message")));
        }
        if block.get("type") == Some(&"text".into()) {
            let so_far = if self.has_text { "text" } else { "" };
            let before = index.checked_sub(1).and_then(|at| self.blocks.get(at));
            pieces.push(Piece::Text(gap(so_far, before).into()));
            self.text(block.get("text"), pieces);
        }
        if index >= self.blocks.len() {
            self.blocks.resize(index + 1, Value::Null);
        }
        if let Some(place) = self.blocks.get_mut(index) {
            *place = block;
        }
        Ok(())
    }

    fn text(&mut self, text: Option<&Value>, pieces: &mut Vec<Piece>) {
        let text = text.and_then(Value::as_str).unwrap_or_default();
        self.has_text |= !text.is_empty();
        pieces.push(Piece::Text(text.to_owned()));
    }

    fn add(&mut self, index: Option<usize>, delta: &Value, pieces: &mut Vec<Piece>) {
        let text = |key: &str| delta.get(key).and_then(Value::as_str);
        match delta.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text_delta" => self.text(delta.get("text"), pieces),
            "thinking_delta" => pieces.extend(text("thinking").map(|text| Piece::Thought(text.to_owned()))),
            _ => {}
        }
        let block = index.and_then(|at| self.blocks.get_mut(at)).and_then(Value::as_object_mut);
        let Some(block) = block else { return };
        for key in ["text", "thinking", "signature"] {
            grow(block, key, text(key));
        }
        // The input is an object when the block begins, and the text of one until it ends.
        if let Some(piece) = text("partial_json") {
            if !block.get("input").is_some_and(Value::is_string) {
                block.insert("input".into(), "".into());
            }
            grow(block, "input", Some(piece));
        }
        if let Some(citation) = delta.get("citation") {
            let citations = block.entry("citations").or_insert_with(|| json!([]));
            if !citations.is_array() {
                *citations = json!([]);
            }
            citations.as_array_mut().into_iter().for_each(|all| all.push(citation.clone()));
        }
    }

    fn end(&mut self, delta: Value, usage: Value) {
        if let Value::Object(delta) = delta {
            self.rest.extend(delta);
        }
        if let Value::Object(usage) = usage {
            let own = self.rest.entry("usage").or_insert_with(|| json!({}));
            if let Value::Object(own) = own {
                own.extend(usage.into_iter().filter(|(_, count)| !count.is_null()));
            }
        }
    }
}

fn grow(block: &mut Map<String, Value>, key: &str, piece: Option<&str>) {
    let Some(piece) = piece else { return };
    match block.get_mut(key) {
        Some(Value::String(text)) => text.push_str(piece),
        _ => drop(block.insert(key.into(), piece.into())),
    }
}

/// A block with its input as the object that it is, where it is one.
fn closed(mut block: Value) -> Value {
    let input = block.get("input").and_then(Value::as_str).map(str::trim).map(|text| {
        if text.is_empty() {
            json!({})
        } else {
            haft_core::json::read(text.as_bytes()).unwrap_or_else(|_| text.into())
        }
    });
    if let (Some(block), Some(input)) = (block.as_object_mut(), input) {
        block.insert("input".into(), input);
    }
    block
}
