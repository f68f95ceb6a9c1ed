//! One answer in the wire format of each of six vendors, cut into equal pieces.

use serde_json::{Map, Value, json};

use crate::provider::dialect::Dialect;
use crate::provider::{anthropic, gemini, ollama, openai, openrouter, responses};

/// A value that may be absent, null or present.
#[derive(Clone, Copy, Debug)]
pub(super) enum May {
    Absent,
    Null,
    Is(&'static str),
}

impl May {
    fn put(self, object: &mut Map<String, Value>, key: &str) {
        match self {
            Self::Absent => {}
            Self::Null => drop(object.insert(key.into(), Value::Null)),
            Self::Is(text) => drop(object.insert(key.into(), text.into())),
        }
    }

    fn is_there(self) -> bool {
        matches!(self, Self::Is(text) if !text.is_empty())
    }
}

/// A piece of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) index: Option<u64>,
    pub(super) id: May,
    pub(super) name: May,
    pub(super) arguments: May,
}

/// A piece of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Text(May),
    Call(Call),
}

/// A format.
pub(super) struct Format {
    pub(super) name: &'static str,
    pub(super) dialect: &'static dyn Dialect,
    /// The frames of an answer with a regular end.
    pub(super) write: fn(&[Part]) -> Vec<Value>,
    /// The body of an answer that is `hello` and a call.
    pub(super) whole: fn() -> Value,
    /// A frame that reports an error.
    pub(super) error: fn() -> Value,
}

pub(super) const FORMATS: &[Format] = &[
    Format {
        name: "chat",
        dialect: &openai::OpenAi { vendor: "openai" },
        write: chat,
        whole: chat_whole,
        error,
    },
    Format { name: "openrouter", dialect: &openrouter::OpenRouter, write: chat, whole: chat_whole, error },
    Format {
        name: "responses",
        dialect: &responses::Responses,
        write: items,
        whole: items_whole,
        error: items_error,
    },
    Format { name: "anthropic", dialect: &anthropic::Anthropic, write: blocks, whole: blocks_whole, error },
    Format { name: "gemini", dialect: &gemini::Gemini, write: parts, whole: parts_whole, error },
    Format { name: "ollama", dialect: &ollama::Ollama, write: lines, whole: lines_whole, error },
];

fn error() -> Value {
    json!({ "type": "error", "error": { "type": "overloaded_error", "code": 503, "message": "late" } })
}

fn items_error() -> Value {
    json!({ "type": "error", "code": "server_error", "message": "late" })
}

fn function(call: Call, arguments: &str) -> Map<String, Value> {
    let mut function = Map::new();
    call.name.put(&mut function, "name");
    call.arguments.put(&mut function, arguments);
    function
}

fn chat(parts: &[Part]) -> Vec<Value> {
    let frame = |delta: Value, finish: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    let mut frames = vec![frame(json!({ "role": "assistant", "content": "" }), Value::Null)];
    for part in parts {
        let mut delta = Map::new();
        match part {
            Part::Text(text) => text.put(&mut delta, "content"),
            Part::Call(call) => {
                let mut entry = Map::new();
                entry.extend(call.index.map(|index| ("index".to_owned(), index.into())));
                call.id.put(&mut entry, "id");
                entry.insert("function".into(), function(*call, "arguments").into());
                delta.insert("tool_calls".into(), json!([entry]));
            }
        }
        frames.push(frame(delta.into(), Value::Null));
    }
    let has_calls = parts.iter().any(|part| matches!(part, Part::Call(_)));
    frames.push(frame(json!({}), if has_calls { "tool_calls" } else { "stop" }.into()));
    frames.push(json!({ "choices": [], "usage": { "prompt_tokens": 1 } }));
    frames
}

fn chat_whole() -> Value {
    let function = json!({ "name": "read", "arguments": "{\"a\":1}" });
    let message = json!({ "role": "assistant", "content": "hello", "tool_calls": [{ "id": "c1", "function": function }] });
    json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] })
}

/// Numbers an event: the numbers of calls follow those of texts.
fn numbered(mut event: Value, index: Option<u64>) -> Value {
    if let Some(index) = index {
        event["output_index"] = (index + 1).into();
    }
    event
}

fn items(parts: &[Part]) -> Vec<Value> {
    let mut frames = vec![json!({ "type": "response.created", "response": { "status": "in_progress" } })];
    let mut has_call = false;
    for part in parts {
        frames.push(match part {
            Part::Text(text) => {
                let mut event =
                    json!({ "type": "response.output_text.delta", "output_index": 0, "content_index": 0 });
                text.put(event.as_object_mut().unwrap(), "delta");
                event
            }
            Part::Call(call) if call.name.is_there() || !has_call || !call.arguments.is_there() => {
                has_call = true;
                let mut item = function(*call, "arguments");
                item.insert("type".into(), "function_call".into());
                call.id.put(&mut item, "call_id");
                numbered(json!({ "type": "response.output_item.added", "item": item }), call.index)
            }
            Part::Call(call) => {
                let mut event = json!({ "type": "response.function_call_arguments.delta" });
                call.arguments.put(event.as_object_mut().unwrap(), "delta");
                numbered(event, call.index)
            }
        });
    }
    frames.push(json!({ "type": "response.completed", "response": { "status": "completed", "output": [] } }));
    frames
}

fn items_whole() -> Value {
    json!({ "status": "completed", "output": [
        { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "hello" }] },
        { "type": "function_call", "call_id": "c1", "name": "read", "arguments": "{\"a\":1}" },
    ] })
}

fn blocks(parts: &[Part]) -> Vec<Value> {
    let number = |mut event: Value, index: Option<u64>| {
        if let Some(index) = index {
            event["index"] = (index + 1).into();
        }
        event
    };
    let start =
        json!({ "role": "assistant", "content": [], "stop_reason": null, "usage": { "input_tokens": 1 } });
    let mut frames = vec![json!({ "type": "message_start", "message": start })];
    let (mut has_text, mut has_call) = (false, false);
    for part in parts {
        match part {
            Part::Text(text) => {
                if !std::mem::replace(&mut has_text, true) {
                    let block = json!({ "type": "text", "text": "" });
                    frames.push(json!({ "type": "content_block_start", "index": 0, "content_block": block }));
                }
                let mut delta = json!({ "type": "text_delta" });
                text.put(delta.as_object_mut().unwrap(), "text");
                frames.push(json!({ "type": "content_block_delta", "index": 0, "delta": delta }));
            }
            Part::Call(call) => {
                if call.name.is_there() || !has_call || !call.arguments.is_there() {
                    has_call = true;
                    let mut block = json!({ "type": "tool_use", "input": {} });
                    call.id.put(block.as_object_mut().unwrap(), "id");
                    call.name.put(block.as_object_mut().unwrap(), "name");
                    frames.push(number(
                        json!({ "type": "content_block_start", "content_block": block }),
                        call.index,
                    ));
                }
                let mut delta = json!({ "type": "input_json_delta" });
                call.arguments.put(delta.as_object_mut().unwrap(), "partial_json");
                frames.push(number(json!({ "type": "content_block_delta", "delta": delta }), call.index));
            }
        }
    }
    let reason = if has_call { "tool_use" } else { "end_turn" };
    frames.push(json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 1 } }));
    frames.push(json!({ "type": "message_stop" }));
    frames
}

fn blocks_whole() -> Value {
    json!({ "role": "assistant", "stop_reason": "tool_use", "content": [
        { "type": "text", "text": "hello" }, { "type": "tool_use", "id": "c1", "name": "read", "input": { "a": 1 } } ] })
}

fn parts(all: &[Part]) -> Vec<Value> {
    let frame = |part: Map<String, Value>| json!({ "candidates": [{ "content": { "role": "model", "parts": [part] } }] });
    let mut frames: Vec<_> = all
        .iter()
        .map(|part| {
            let mut object = Map::new();
            match part {
                Part::Text(text) => text.put(&mut object, "text"),
                Part::Call(call) => {
                    let mut function = function(*call, "args");
                    function.extend(call.index.map(|index| ("index".to_owned(), index.into())));
                    call.id.put(&mut function, "id");
                    object.insert("functionCall".into(), function.into());
                }
            }
            frame(object)
        })
        .collect();
    frames.push(json!({ "candidates": [{ "content": null, "finishReason": "STOP" }], "usageMetadata": {} }));
    frames
}

fn parts_whole() -> Value {
    let call = json!({ "functionCall": { "name": "read", "args": { "a": 1 } } });
    json!({ "candidates": [{ "content": { "parts": [{ "text": "hello" }, call] }, "finishReason": "STOP" }] })
}

fn lines(parts: &[Part]) -> Vec<Value> {
    let frame = |message: Map<String, Value>, done: bool| json!({ "message": message, "done": done });
    let mut frames = Vec::new();
    for part in parts {
        let mut message = Map::from_iter([("role".to_owned(), "assistant".into())]);
        match part {
            Part::Text(text) => text.put(&mut message, "content"),
            Part::Call(call) => {
                let mut function = function(*call, "arguments");
                function.extend(call.index.map(|index| ("index".to_owned(), index.into())));
                let mut entry = Map::from_iter([("function".to_owned(), function.into())]);
                call.id.put(&mut entry, "id");
                message.insert("tool_calls".into(), json!([entry]));
            }
        }
        frames.push(frame(message, false));
    }
    let mut last = frame(Map::from_iter([("content".to_owned(), "".into())]), true);
    last["done_reason"] = "stop".into();
    frames.push(last);
    frames
}

fn lines_whole() -> Value {
    let call = json!({ "function": { "name": "read", "arguments": { "a": 1 } } });
    json!({ "message": { "role": "assistant", "content": "hello", "tool_calls": [call] }, "done": true, "done_reason": "stop" })
}
