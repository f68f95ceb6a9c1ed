//! The formats of OpenAI's chat completions, and of OpenRouter, which adds reasoning, prices and errors in
//! successful responses.

use serde_json::{Map, Value, json};

use super::format::{echoed, ensure, event};
use super::server::{Request, Said, Vendor, Written};
use crate::agent::chat_format;

pub(super) struct OpenAi;
pub(super) struct OpenRouter;

impl Vendor for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn base_path(&self) -> &'static str {
        "/v1"
    }

    fn models(&self) -> &'static str {
        "/v1/models"
    }

    fn check(&self, request: &Request<'_>) -> Result<bool, String> {
        ensure(request.target == "POST /v1/chat/completions", request.target)?;
        chat_format::check(request.body)?;
        check_echo(request)?;
        let streams = request.body.get("stream") == Some(&true.into());
        let usage = request.body.pointer("/stream_options/include_usage") == Some(&true.into());
        ensure(streams == usage, "usage is not asked for")?;
        Ok(streams)
    }

    fn write(&self, said: &Said, stream: bool) -> Written {
        let message = message(said, "reasoning_content");
        let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
            "prompt_tokens_details": { "cached_tokens": 4 } });
        written(message, stream, &usage, true)
    }

    fn error(&self, _: u16, message: &str) -> Value {
        json!({ "error": { "message": message, "type": "invalid_request_error", "param": null, "code": null } })
    }

    fn empty(&self) -> Value {
        json!({ "id": "x", "object": "chat.completion", "model": "m", "choices": [] })
    }

    fn error_frame(&self, message: &str) -> String {
        event(&json!({ "error": { "message": message, "type": "server_error" } }))
    }

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }
}

impl Vendor for OpenRouter {
    fn name(&self) -> &'static str {
        "openrouter"
    }

    fn base_path(&self) -> &'static str {
        "/api/v1"
    }

    fn models(&self) -> &'static str {
        "/api/v1/key"
    }

    /// PL12: the path is `/api/v1/chat/completions`, and a request asks for the price.
    fn check(&self, request: &Request<'_>) -> Result<bool, String> {
        ensure(request.target == "POST /api/v1/chat/completions", request.target)?;
        check_echo(request)?;
        let mut body = request.body.clone();
        let usage = body.as_object_mut().and_then(|body| body.remove("usage"));
        ensure(usage == Some(json!({ "include": true })), "the price is not asked for")?;
        for message in body["messages"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut)
        {
            message.remove("reasoning_details");
            message.remove("reasoning");
        }
        chat_format::check(&body)?;
        ensure(request.headers.get("x-title").is_some_and(|title| title == "haft"), "no `x-title`")?;
        Ok(body.get("stream") == Some(&true.into()))
    }

    fn write(&self, said: &Said, stream: bool) -> Written {
        let mut message = message(said, "reasoning");
        if !said.thought.is_empty() {
            let detail = json!({ "type": "reasoning.text", "index": 0, "format": "x", "text": said.thought, "signature": "sig==" });
            message.insert("reasoning_details".into(), json!([detail]));
        }
        let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cost": 0.25,
            "prompt_tokens_details": { "cached_tokens": 4 } });
        written(message, stream, &usage, false)
    }

    fn error(&self, status: u16, message: &str) -> Value {
        json!({ "error": { "message": message, "code": status } })
    }

    fn empty(&self) -> Value {
        json!({ "id": "gen-x", "model": "m", "choices": [], "usage": null })
    }

    fn error_frame(&self, message: &str) -> String {
        let choice = json!({ "index": 0, "delta": { "content": "" }, "finish_reason": "error" });
        event(&json!({ "id": "gen-x", "error": { "code": 502, "message": message }, "choices": [choice] }))
    }

    fn key_header(&self, key: &str) -> (&'static str, String) {
        OpenAi.key_header(key)
    }
}

fn check_echo(request: &Request<'_>) -> super::format::Check {
    let messages = request.body["messages"].as_array().into_iter().flatten();
    echoed(
        &messages.filter(|message| message["role"] == "assistant").collect::<Vec<_>>(),
        request.answers,
        request.moved,
    )
}

/// The message that must come back.
fn message(said: &Said, thoughts: &str) -> Map<String, Value> {
    let content = if said.text.is_empty() { Value::Null } else { said.text.into() };
    let mut message = Map::from_iter([("role".into(), "assistant".into()), ("content".into(), content)]);
    if !said.thought.is_empty() {
        message.insert(thoughts.into(), said.thought.into());
    }
    let calls: Vec<_> = said
        .calls
        .iter()
        .map(|(id, tool, arguments)| {
            json!({ "id": id, "type": "function", "function": { "name": tool, "arguments": arguments.to_string() } })
        })
        .collect();
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    message
}

fn written(message: Map<String, Value>, stream: bool, usage: &Value, ends: bool) -> Written {
    let finish = if message.contains_key("tool_calls") { "tool_calls" } else { "stop" };
    let echoed = Value::Object(message.clone());
    if stream {
        let mut frames = chunks(&message, finish, usage);
        // Some compatible servers omit the last line.
        frames.extend(Some("data: [DONE]\n\n".to_owned()).filter(|_| ends));
        return Written { media_type: "text/event-stream", frames, message: echoed };
    }
    let mut sent = message;
    sent.insert("refusal".into(), Value::Null);
    let choice = json!({ "index": 0, "message": sent, "finish_reason": finish, "logprobs": null });
    let body = json!({ "id": "x", "object": "chat.completion", "created": 1, "model": "fake-model-1",
        "choices": [choice], "usage": usage });
    Written { media_type: "application/json", frames: vec![body.to_string()], message: echoed }
}

/// The message in the pieces of the vendor: a role, words, calls in parts, a reason, the usage.
fn chunks(message: &Map<String, Value>, finish: &str, usage: &Value) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish, "logprobs": null });
        event(&json!({ "id": "x", "object": "chat.completion.chunk", "created": 1, "model": "fake-model-1",
            "choices": [choice], "usage": null }))
    };
    let mut frames = vec![
        ": OPENROUTER PROCESSING\n\n".to_owned(),
        chunk(json!({ "role": "assistant", "content": null }), Value::Null),
    ];
    for (key, value) in message {
        let deltas: Vec<Value> = match (key.as_str(), value) {
            ("role", _) | (_, Value::Null) => continue,
            ("tool_calls", calls) => calls.as_array().unwrap().iter().enumerate().flat_map(call).collect(),
            ("reasoning_details", details) => details_in_parts(&details[0]),
            (key, Value::String(text)) => words(text).map(|word| json!({ key: word })).collect(),
            (key, value) => vec![json!({ key: value })],
        };
        frames.extend(deltas.into_iter().map(|delta| chunk(delta, Value::Null)));
    }
    frames.push(chunk(json!({}), finish.into()));
    frames.push(event(&json!({ "id": "x", "model": "fake-model-1", "choices": [], "usage": usage })));
    frames
}

fn call((index, call): (usize, &Value)) -> Vec<Value> {
    let arguments = call["function"]["arguments"].as_str().unwrap();
    let start = json!({ "index": index, "id": call["id"], "type": "function",
        "function": { "name": call["function"]["name"], "arguments": "" } });
    let rest = words(arguments).map(|word| json!({ "index": index, "function": { "arguments": word } }));
    std::iter::once(start).chain(rest).map(|call| json!({ "tool_calls": [call] })).collect()
}

fn details_in_parts(detail: &Value) -> Vec<Value> {
    let part =
        |key: &str, value: &str| json!({ "type": detail["type"], "index": 0, "format": "x", key: value });
    let text = detail["text"].as_str().unwrap();
    let parts = words(text).map(|word| part("text", word)).chain([part("signature", "sig==")]);
    parts.map(|part| json!({ "reasoning_details": [part] })).collect()
}

/// A text in pieces that are not words, so that every cut is possible.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' ', '"', 'e'])
}
