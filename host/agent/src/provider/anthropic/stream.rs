//! Folds a streamed message into a complete one. Each block stays unmodified; an event or a delta of an unknown
//! type is ignored.

use serde_json::{Map, Value, json};

use super::{NAME, is_kind as is};
use crate::provider::calls::{cut_off, echo_arguments, echo_name, requested_call};
use crate::provider::codes::reported_error;
use crate::provider::dialect::{Fold, Piece};
use crate::provider::error::Failure;
use crate::provider::pieces::{MAX_ITEMS, Shape, join};
use crate::provider::{Reply, RequestedCall};

/// The block of a call. Its input is an object when the block begins; deltas carry the input as JSON text.
const CALL: Shape =
    Shape { is_call: |block| is(block, "tool_use"), id: "id", function: None, arguments: "input" };
/// The members that deltas extend: the type of the block, the key in the block, and the key in the delta.
const GROWING: &[(&str, &str, &str)] = &[
    ("text", "text", "text"),
    ("thinking", "thinking", "thinking"),
    ("thinking", "signature", "signature"),
    ("tool_use", "input", "partial_json"),
];

#[derive(Default)]
pub(super) struct Message {
    /// The message without its content.
    rest: Map<String, Value>,
    blocks: Vec<Value>,
    /// Whether there is text already, so that the next text may need a separator.
    has_text: bool,
    is_over: bool,
}

impl Fold for Message {
    fn take(&mut self, mut frame: Value, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        reported_error(&frame)?;
        let kind = frame.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let index = frame.get("index").filter(|index| index.is_u64()).cloned();
        let mut part = |key: &str| match frame.get_mut(key).map(Value::take) {
            Some(Value::Object(part)) => part,
            _ => Map::new(),
        };
        match kind.as_str() {
            "message_start" => self.start(part("message"), pieces)?,
            "content_block_start" => self.begin(index, part("content_block"), pieces)?,
            "content_block_delta" => self.add(index.as_ref(), &part("delta"), pieces)?,
            "message_delta" => {
                let usage = part("usage");
                self.end(part("delta"), usage);
            }
            "message_stop" => self.is_over = true,
            _ => {}
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.is_over || self.rest.get("stop_reason").is_some_and(Value::is_string)
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn body(self: Box<Self>) -> Value {
        let Self { rest: mut message, mut blocks, .. } = *self;
        CALL.settle(&mut blocks);
        for block in blocks.iter_mut().filter_map(Value::as_object_mut) {
            block.shift_remove("index");
        }
        message.insert("content".into(), blocks.into());
        message.into()
    }
}

impl Message {
    fn start(&mut self, mut message: Map<String, Value>, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        let content = message.shift_remove("content");
        let usage = message.shift_remove("usage");
        self.end(message, usage.and_then(|usage| usage.as_object().cloned()).unwrap_or_default());
        for block in content.as_ref().and_then(Value::as_array).into_iter().flatten() {
            self.begin(None, block.as_object().cloned().unwrap_or_default(), pieces)?;
        }
        Ok(())
    }

    fn begin(
        &mut self,
        index: Option<Value>,
        mut block: Map<String, Value>,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Failure> {
        if self.blocks.len() >= MAX_ITEMS {
            return Err(Failure::Malformed(format!("more than {MAX_ITEMS} blocks in a message")));
        }
        block.extend(index.map(|index| ("index".to_owned(), index)));
        let text = block.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
        let block = Value::Object(block);
        if is(&block, "tool_use") {
            let Value::Object(block) = block else { return Ok(()) };
            let place = CALL.place(&self.blocks, &block);
            if place.is_some_and(|place| CALL.is_whole(&self.blocks, place)) {
                self.blocks.push(block.into());
            } else {
                CALL.add(&mut self.blocks, block);
            }
            return Ok(());
        }
        // A repeated start of one block.
        if text.is_empty()
            && self.last(block.get("index"), |known| known.get("type") == block.get("type")).is_some()
        {
            return Ok(());
        }
        if is(&block, "text") {
            let so_far = if self.has_text { "text" } else { "" };
            pieces.push(Piece::Text(gap(so_far, self.blocks.last()).into()));
            self.say(&text, pieces);
        }
        self.blocks.push(block);
        Ok(())
    }

    /// Returns the last block with this index that fulfils `is_meant`.
    fn last(&mut self, index: Option<&Value>, is_meant: impl Fn(&Value) -> bool) -> Option<&mut Value> {
        let index = index?;
        self.blocks.iter_mut().rfind(|block| block.get("index") == Some(index) && is_meant(block))
    }

    fn say(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        self.has_text |= !text.is_empty();
        pieces.push(Piece::Text(text.to_owned()));
    }

    fn add(
        &mut self,
        index: Option<&Value>,
        delta: &Map<String, Value>,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Failure> {
        for (kind, key, sent) in GROWING {
            let Some(piece) = delta.get(*sent).and_then(Value::as_str) else { continue };
            self.grow(index, kind, key, piece, pieces)?;
        }
        if let (Some(citation), Some(block)) = (delta.get("citation"), self.last(index, |_| true))
            && let Some(block) = block.as_object_mut()
        {
            join(block, "citations".into(), json!([citation]));
        }
        Ok(())
    }

    /// Appends a piece to the block with this index, or to the last block of its type; text may arrive without
    /// the start of a block.
    fn grow(
        &mut self,
        index: Option<&Value>,
        kind: &str,
        key: &str,
        piece: &str,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Failure> {
        let is_there = self.last(index, |block| is(block, kind)).is_some();
        let begins = kind != "tool_use"
            && !is_there
            && (index.is_some() || !self.blocks.last().is_some_and(|block| is(block, kind)));
        if begins {
            let block = Map::from_iter([("type".to_owned(), kind.into()), (key.to_owned(), "".into())]);
            self.begin(index.cloned(), block, pieces)?;
        }
        match kind {
            "text" => self.say(piece, pieces),
            _ if key == "thinking" => pieces.push(Piece::Thought(piece.to_owned())),
            _ => {}
        }
        let place = self.blocks.iter().rposition(|block| {
            is(block, kind) && (!is_there || index.is_none() || block.get("index") == index)
        });
        let block = place.and_then(|place| self.blocks.get_mut(place)).and_then(Value::as_object_mut);
        if let Some(block) = block {
            CALL.join(block, Map::from_iter([(key.to_owned(), piece.into())]));
        }
        Ok(())
    }

    fn end(&mut self, delta: Map<String, Value>, usage: Map<String, Value>) {
        let is_set = |(_, value): &(String, Value)| !value.is_null();
        self.rest.extend(delta.into_iter().filter(is_set));
        let merged = self.rest.entry("usage").or_insert_with(|| json!({}));
        if let Value::Object(merged) = merged {
            merged.extend(usage.into_iter().filter(is_set));
        }
    }
}

// Reads the content blocks of a message: text, calls, and the form in which both are sent back. Keeps blocks of
// other types unmodified. Never fails: an unreadable block becomes an error message for the model.

/// Reads `blocks`. `cut`: the limit of output tokens ended them. `earlier`: the number of calls already in the
/// conversation.
pub(super) fn decode(blocks: &[Value], cut: bool, earlier: usize) -> Reply {
    let mut reply = Reply { vendor: NAME.into(), ..Reply::default() };
    let mut echoes = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let Some(block) = block.as_object() else { continue };
        match kind(block) {
            "tool_use" => {
                let call = requested_call(block.get("id"), Some(block), "input", &reply.calls, earlier);
                echoes.push(echo_call(block, &call));
                reply.calls.push(call);
            }
            "text" => {
                let text = block.get("text").and_then(Value::as_str).unwrap_or_default();
                reply.text.push_str(gap(&reply.text, index.checked_sub(1).and_then(|at| blocks.get(at))));
                reply.text.push_str(text);
                echoes.extend(Some(block).filter(|_| !text.trim().is_empty()).cloned());
            }
            // The vendor rejects thinking without a signature, and a server that does not sign does not need it
            // back.
            "thinking" if !has_signature(block) => {}
            _ => echoes.push(block.clone()),
        }
    }
    let ends_in_call = blocks.last().and_then(Value::as_object).is_some_and(|last| kind(last) == "tool_use");
    if cut && ends_in_call {
        cut_off(&mut reply.calls);
    }
    reply.raw = json!({ "role": "assistant", "content": echoes });
    reply
}

/// Returns the separator between `text` and a text block that follows `before`: consecutive text blocks are one
/// text (citations split them), other text blocks are separate paragraphs.
fn gap(text: &str, before: Option<&Value>) -> &'static str {
    let goes_on = before.is_some_and(|before| is(before, "text"));
    if text.is_empty() || goes_on { "" } else { "\n\n" }
}

fn kind(block: &Map<String, Value>) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn has_signature(block: &Map<String, Value>) -> bool {
    block.get("signature").and_then(Value::as_str).is_some_and(|signature| !signature.is_empty())
}

/// Returns the call unmodified except where the API would reject its own output.
fn echo_call(block: &Map<String, Value>, requested: &RequestedCall) -> Map<String, Value> {
    let mut echo = block.clone();
    echo.insert("id".into(), requested.call.id.as_str().into());
    echo.insert("name".into(), echo_name(&requested.call.tool).into());
    echo.insert("input".into(), echo_arguments(requested));
    echo
}
