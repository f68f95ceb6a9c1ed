//! The format of Anthropic's Messages API.

use serde_json::{Map, Value, json};

use super::format::{
    Check, echoed, ensure, every_schema, known, list, name, object, properties_are_named, text,
};
use super::openai::words;
use super::server::{Request, Said, Vendor, Written};

pub(super) struct Anthropic;

/// Top-level keys of a request.
const KEYS: &[&str] = &[
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
    "thinking",
    "output_config",
];
/// Blocks by the role that may send them, with their permitted keys.
const BLOCKS: &[(&str, &str, &[&str])] = &[
    ("user", "text", &["type", "text", "cache_control"]),
    ("user", "image", &["type", "source", "cache_control"]),
    ("user", "document", &["type", "source", "title", "cache_control"]),
    ("user", "tool_result", &["type", "tool_use_id", "content", "is_error", "cache_control"]),
    ("assistant", "text", &["type", "text", "citations", "cache_control"]),
    ("assistant", "thinking", &["type", "thinking", "signature"]),
    ("assistant", "redacted_thinking", &["type", "data"]),
    ("assistant", "tool_use", &["type", "id", "name", "input", "cache_control"]),
];

impl Vendor for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn base_path(&self) -> &'static str {
        "/v1"
    }

    fn models(&self) -> &'static str {
        "/v1/models"
    }

    /// PL13: a request has the version header, no `authorization`, `max_tokens`, and each turn's answers in one
    /// message.
    fn check(&self, request: &Request<'_>) -> Result<bool, String> {
        ensure(request.target == "POST /v1/messages", request.target)?;
        let version = request.headers.get("anthropic-version").map(String::as_str);
        ensure(version == Some("2023-06-01"), "no `anthropic-version`")?;
        ensure(!request.headers.contains_key("authorization"), "a key in `authorization`")?;
        let body = object(request.body, "the body")?;
        known(body, KEYS, "the body")?;
        text(body, "model")?;
        let most = body.get("max_tokens").and_then(Value::as_u64);
        ensure(most.is_some_and(|most| most > 0), "`max_tokens` is missing")?;
        if let Some(system) = body.get("system") {
            for block in list(Some(system), "`system`")? {
                check_block(block, "user", "text")?;
            }
        }
        if let Some(tools) = body.get("tools") {
            list(Some(tools), "`tools`")?.iter().try_for_each(check_tool)?;
        }
        if let Some(config) = body.get("output_config") {
            check_config(object(config, "`output_config`")?)?;
        }
        check_messages(list(body.get("messages"), "`messages`")?)?;
        check_marks(request.body)?;
        let turns: Vec<_> = body["messages"].as_array().unwrap().iter().collect();
        echoed(
            &turns.into_iter().filter(|turn| turn["role"] == "assistant").collect::<Vec<_>>(),
            request.answers,
            request.moved,
        )?;
        Ok(body.get("stream") == Some(&true.into()))
    }

    fn write(&self, said: &Said, stream: bool) -> Written {
        let mut content = Vec::new();
        if !said.thought.is_empty() {
            content.push(json!({ "type": "thinking", "thinking": said.thought, "signature": "sig==" }));
            content.push(json!({ "type": "redacted_thinking", "data": "opaque" }));
        }
        if !said.text.is_empty() {
            content.push(json!({ "type": "text", "text": said.text }));
        }
        content.extend(said.calls.iter().map(
            |(id, tool, arguments)| json!({ "type": "tool_use", "id": id, "name": tool, "input": arguments }),
        ));
        let reason = if said.calls.is_empty() { "end_turn" } else { "tool_use" };
        let message = json!({ "role": "assistant", "content": content });
        if stream {
            return Written {
                media_type: "text/event-stream; charset=utf-8",
                frames: events(&content, reason),
                message,
            };
        }
        let body = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "fake-model-1",
            "content": content, "stop_reason": reason, "stop_sequence": null,
            "usage": { "input_tokens": 6, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0, "output_tokens": 5 } });
        Written { media_type: "application/json", frames: vec![body.to_string()], message }
    }

    fn error(&self, status: u16, message: &str) -> Value {
        let kind = match status {
            401 => "authentication_error",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "invalid_request_error",
        };
        json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_1" })
    }

    fn empty(&self) -> Value {
        json!({ "type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn" })
    }

    fn error_frame(&self, message: &str) -> String {
        frame(&self.error(529, message))
    }

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("x-api-key", key.to_owned())
    }
}

fn check_tool(tool: &Value) -> Check {
    let tool = object(tool, "a tool")?;
    known(tool, &["name", "description", "input_schema", "cache_control"], "a tool")?;
    name(tool, "name")?;
    let schema = tool.get("input_schema").ok_or("a tool without `input_schema`")?;
    ensure(schema["type"] == "object", "`input_schema` is not the schema of an object")?;
    let combined = ["anyOf", "oneOf", "allOf"].iter().any(|key| schema.get(key).is_some());
    ensure(!combined, "`input_schema` combines schemas at its root")?;
    properties_are_named(schema)?;
    ensure(jsonschema::meta::is_valid(schema), "`input_schema` is not a JSON Schema")
}

fn check_messages(messages: &[Value]) -> Check {
    let mut open: Vec<String> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let message = object(message, "a message")?;
        known(message, &["role", "content"], "a message")?;
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        ensure(text(message, "role")? == role, "roles do not take turns")?;
        let blocks = list(message.get("content"), "`content`")?;
        let mut answered = Vec::new();
        for (place, block) in blocks.iter().enumerate() {
            check_block(block, role, "")?;
            if block["type"] == "tool_result" {
                ensure(answered.len() == place, "a `tool_result` after something else")?;
                answered.push(text(object(block, "")?, "tool_use_id")?.to_owned());
            }
        }
        ensure(
            role == "assistant" || answered == open,
            format!("calls {open:?} are answered by {answered:?}"),
        )?;
        open = blocks
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .map(|block| block["id"].as_str().unwrap().to_owned())
            .collect();
    }
    ensure(messages.len() % 2 == 1, "the last message is not the user's")
}

/// Structured outputs: every object is closed, and no keyword only bounds a value.
fn check_config(config: &Map<String, Value>) -> Check {
    known(config, &["effort", "format"], "`output_config`")?;
    let Some(format) = config.get("format") else { return Ok(()) };
    let format = object(format, "`format`")?;
    known(format, &["type", "schema"], "`format`")?;
    ensure(format.get("type") == Some(&"json_schema".into()), "`format.type`")?;
    let schema = format.get("schema").unwrap_or(&Value::Null);
    properties_are_named(schema)?;
    every_schema(schema, &|node| {
        let is_open = node.get("type") == Some(&"object".into())
            && node.get("additionalProperties") != Some(&false.into());
        ensure(!is_open, format!("an object is not closed: {node:?}"))?;
        let bounds = ["minimum", "maximum", "minLength", "maxLength", "pattern", "oneOf", "maxItems"];
        ensure(!bounds.iter().any(|key| node.contains_key(*key)), format!("not supported: {node:?}"))
    })
}

fn check_block(block: &Value, role: &str, only: &str) -> Check {
    let block = object(block, "a block")?;
    let kind = text(block, "type")?;
    let row = BLOCKS.iter().find(|row| row.0 == role && row.1 == kind && (only.is_empty() || only == kind));
    let (_, _, keys) = row.ok_or_else(|| format!("a block `{kind}` of `{role}`"))?;
    known(block, keys, kind)?;
    match kind {
        "text" => ensure(!text(block, "text")?.trim().is_empty(), "a blank text"),
        "thinking" => text(block, "signature").map(drop),
        "tool_use" => {
            name(block, "name")?;
            name(block, "id")?;
            object(&block["input"], "`input`").map(drop)
        }
        "tool_result" => {
            ensure(block.get("is_error").is_none_or(|flag| flag == true), "`is_error` is false")?;
            if block["content"].is_string() {
                return Ok(());
            }
            list(block.get("content"), "`content` of a `tool_result`")?.iter().try_for_each(|part| {
                check_block(part, "user", "").and(ensure(part["type"] != "tool_result", "a nested answer"))
            })
        }
        "image" | "document" => {
            let source = object(&block["source"], "`source`")?;
            known(source, &["type", "media_type", "data"], "`source`")?;
            let pictures = ["image/png", "image/jpeg", "image/gif", "image/webp"];
            let takes: &[&str] = if kind == "image" { &pictures } else { &["application/pdf"] };
            ensure(takes.contains(&text(source, "media_type")?), "a file of another kind")
        }
        _ => Ok(()),
    }
}

/// One to four cache marks, all of the kind `ephemeral`.
fn check_marks(body: &Value) -> Check {
    fn marks(value: &Value, found: &mut Vec<Value>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("cache_control").cloned());
                object.values().for_each(|value| marks(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| marks(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    marks(body, &mut found);
    ensure((1..=4).contains(&found.len()), format!("{} marks", found.len()))?;
    ensure(found.iter().all(|mark| *mark == json!({ "type": "ephemeral" })), "a mark of another kind")
}

fn frame(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

fn events(content: &[Value], reason: &str) -> Vec<String> {
    let usage = json!({ "input_tokens": 6, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0, "output_tokens": 1 });
    let mut events = vec![
        json!({ "type": "message_start", "message": { "id": "msg_1", "type": "message", "role": "assistant",
            "model": "fake-model-1", "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage } }),
        json!({ "type": "ping" }),
    ];
    for (index, block) in content.iter().enumerate() {
        let (start, deltas) = block_events(block.as_object().unwrap());
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        events.extend(
            deltas
                .iter()
                .map(|delta| json!({ "type": "content_block_delta", "index": index, "delta": delta })),
        );
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    events.push(json!({ "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null }, "usage": { "output_tokens": 5 } }));
    events.push(json!({ "type": "message_stop" }));
    events.iter().map(frame).collect()
}

/// A block at its start, and its deltas.
fn block_events(block: &Map<String, Value>) -> (Value, Vec<Value>) {
    let mut start = block.clone();
    let mut deltas = Vec::new();
    for (key, empty, kind) in [
        ("thinking", json!(""), "thinking_delta"),
        ("text", json!(""), "text_delta"),
        ("signature", json!(""), "signature_delta"),
        ("input", json!({}), "input_json_delta"),
    ] {
        let Some(value) = start.get_mut(key) else { continue };
        let whole = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        *value = empty;
        let name = if key == "input" { "partial_json" } else { key };
        deltas.extend(words(&whole).map(|word| json!({ "type": kind, name: word })));
    }
    (start.into(), deltas)
}
