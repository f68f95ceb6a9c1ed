//! The format of OpenAI's Responses API: items instead of messages, encrypted thinking, and an event that completes
//! a response.

use std::collections::BTreeSet;

use haft::provider::ApiFormat;
use serde_json::{Map, Value, json};

use super::format::{Check, echoed, ensure, known, list, name, object, text};
use super::openai::{OpenAi, words};
use super::server::{Request, Said, Vendor, Written};
use crate::agent::chat_format;

pub(super) struct Responses;

/// Top-level keys of a request, as published.
const KEYS: &[&str] = &[
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stream",
    "store",
    "include",
    "reasoning",
    "text",
    "temperature",
    "top_p",
    "max_output_tokens",
    "prompt_cache_key",
    "truncation",
];
/// The kinds of items that haft sends: their name, and their required and other keys.
const ITEMS: &[(&str, &[&str], &[&str])] = &[
    ("message", &["id", "role", "content", "status"], &["phase"]),
    ("function_call", &["call_id", "name", "arguments"], &["id", "status"]),
    ("function_call_output", &["call_id", "output"], &["id", "status"]),
    ("reasoning", &["id", "summary", "encrypted_content"], &["content", "status"]),
];

impl Vendor for Responses {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn format(&self) -> Option<ApiFormat> {
        Some(ApiFormat::Responses)
    }

    fn base_path(&self) -> &'static str {
        "/v1"
    }

    fn models(&self) -> &'static str {
        "/v1/models"
    }

    fn check(&self, request: &Request<'_>) -> Result<bool, String> {
        ensure(request.target == "POST /v1/responses", request.target)?;
        let body = object(request.body, "the body")?;
        known(body, KEYS, "the body")?;
        text(body, "model")?;
        ensure(body.get("store") == Some(&false.into()), "the conversation would be stored")?;
        ensure(body.get("include") == Some(&json!(["reasoning.encrypted_content"])), "`include`")?;
        ensure(body.get("instructions").is_none_or(|text| text != ""), "`instructions` is empty")?;
        if let Some(tools) = body.get("tools") {
            check_tools(list(Some(tools), "`tools`")?)?;
        }
        if let Some(text) = body.get("text") {
            let format = object(text.get("format").unwrap_or(&Value::Null), "`text.format`")?;
            known(format, &["type", "name", "description", "strict", "schema"], "`text.format`")?;
            ensure(format.get("type") == Some(&"json_schema".into()), "`text.format.type`")?;
            chat_format::check_named_schema(format)?;
        }
        let items = list(body.get("input"), "`input`")?;
        check_items(items)?;
        check_echo(items, request)?;
        Ok(body.get("stream") == Some(&true.into()))
    }

    fn write(&self, said: &Said, stream: bool) -> Written {
        let items = items(said);
        let message = json!({ "output": items });
        if stream {
            return Written {
                media_type: "text/event-stream; charset=utf-8",
                frames: frames(&items),
                message,
            };
        }
        let body = response("completed", &items);
        Written { media_type: "application/json", frames: vec![body.to_string()], message }
    }

    fn error(&self, status: u16, message: &str) -> Value {
        OpenAi.error(status, message)
    }

    fn empty(&self) -> Value {
        response("completed", &[])
    }

    fn error_frame(&self, message: &str) -> String {
        frame(
            &json!({ "type": "error", "code": null, "message": message, "param": null, "sequence_number": 9 }),
        )
    }

    fn key_header(&self, key: &str) -> (&'static str, String) {
        OpenAi.key_header(key)
    }
}

fn check_tools(tools: &[Value]) -> Check {
    let mut names = BTreeSet::new();
    for tool in tools {
        let tool = object(tool, "a tool")?;
        known(tool, &["type", "name", "description", "parameters", "strict"], "a tool")?;
        ensure(tool.get("type") == Some(&"function".into()), "a tool's `type` is not `function`")?;
        ensure(tool.get("strict").is_some_and(Value::is_boolean), "a tool has no `strict`")?;
        ensure(names.insert(name(tool, "name")?), "two tools have one name")?;
        chat_format::check_schema(tool.get("parameters").unwrap_or(&Value::Null))?;
    }
    Ok(())
}

/// Calls and answers match by their ids; reasoning comes before the item that follows from it.
fn check_items(items: &[Value]) -> Check {
    let mut open = BTreeSet::new();
    let mut thought = false;
    for item in items {
        let item = object(item, "an item")?;
        let kind = item.get("type").and_then(Value::as_str);
        check_keys(item, kind)?;
        match kind {
            Some("function_call") => {
                name(item, "name")?;
                let arguments = text(item, "arguments")?;
                let parsed: Result<Map<String, Value>, _> = serde_json::from_str(arguments);
                ensure(parsed.is_ok(), "`arguments` is not the JSON of an object")?;
                let id = text(item, "call_id")?;
                ensure(id.len() <= 64, "`call_id` is longer than 64")?;
                ensure(open.insert(id), format!("two calls have the id `{id}`"))?;
            }
            Some("function_call_output") => {
                let id = text(item, "call_id")?;
                ensure(open.remove(id), format!("no tool call found for function call output `{id}`"))?;
                if !item["output"].is_string() {
                    list(item.get("output"), "`output`")?.iter().try_for_each(check_part)?;
                }
                ensure(!thought, "reasoning without what follows it")?;
            }
            Some("reasoning") => ensure(!std::mem::replace(&mut thought, true), "reasoning twice")?,
            _ => {
                let of_model = item.get("role") == Some(&"assistant".into());
                ensure(open.is_empty(), format!("no tool output found for {open:?}"))?;
                ensure(!thought || of_model, "reasoning without what follows it")?;
            }
        }
        thought &= kind == Some("reasoning");
    }
    ensure(open.is_empty(), format!("no tool output found for {open:?}"))?;
    ensure(!thought, "reasoning without what follows it")
}

fn check_keys(item: &Map<String, Value>, kind: Option<&str>) -> Check {
    let Some(kind) = kind else {
        known(item, &["role", "content"], "a message")?;
        if item.get("content").is_none_or(|content| !content.is_string()) {
            list(item.get("content"), "`content`")?.iter().try_for_each(check_part)?;
        }
        return ensure(["user", "assistant"].contains(&text(item, "role")?), "`role`");
    };
    let (_, required, others) =
        ITEMS.iter().find(|row| row.0 == kind).ok_or_else(|| format!("unknown item `{kind}`"))?;
    let missing = required.iter().find(|key| !item.contains_key(**key));
    ensure(missing.is_none(), format!("`{kind}` has no {missing:?}"))?;
    known(item, &[*required, *others, &["type"]].concat(), kind)
}

/// A part of a user's message or of a tool's answer.
fn check_part(part: &Value) -> Check {
    let part = object(part, "a part")?;
    let keys: &[&str] = match text(part, "type")? {
        "input_text" => &["type", "text"],
        "input_image" => &["type", "image_url", "detail"],
        "input_file" => &["type", "filename", "file_data"],
        other => return Err(format!("a part `{other}`")),
    };
    known(part, keys, "a part")?;
    keys.iter().try_for_each(|key| text(part, key).map(drop))
}

/// The model's items come back, in order and unmodified.
fn check_echo(items: &[Value], request: &Request<'_>) -> Check {
    let given: Vec<Value> =
        request.answers.iter().flat_map(|answer| answer["output"].as_array().unwrap().clone()).collect();
    let is_own = |item: &&Value| item.get("type").is_some_and(|kind| kind != "function_call_output");
    echoed(&items.iter().filter(is_own).collect::<Vec<_>>(), &given, request.moved)
}

/// The items that must come back.
fn items(said: &Said) -> Vec<Value> {
    let mut items = Vec::new();
    if !said.thought.is_empty() {
        let summary = json!([{ "type": "summary_text", "text": said.thought }]);
        items.push(
            json!({ "id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "gAAA==" }),
        );
    }
    if !said.text.is_empty() {
        let content =
            json!([{ "type": "output_text", "text": said.text, "annotations": [], "logprobs": [] }]);
        items.push(
            json!({ "id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content }),
        );
    }
    items.extend(said.calls.iter().map(|(id, tool, arguments)| {
        json!({ "id": format!("fc_{id}"), "type": "function_call", "status": "completed", "call_id": id,
            "name": tool, "arguments": arguments.to_string() })
    }));
    items
}

fn response(status: &str, items: &[Value]) -> Value {
    json!({ "id": "resp_1", "object": "response", "created_at": 1, "status": status, "error": null,
        "incomplete_details": null, "instructions": "…", "model": "fake-model-1", "output": items, "store": false,
        "usage": { "input_tokens": 10, "input_tokens_details": { "cached_tokens": 4 }, "output_tokens": 5,
            "output_tokens_details": { "reasoning_tokens": 2 }, "total_tokens": 15 } })
}

/// The events of a stream: each item starts empty, grows, and comes whole at its end.
fn frames(items: &[Value]) -> Vec<String> {
    let mut frames = vec![
        frame(&json!({ "type": "response.created", "response": response("in_progress", &[]) })),
        frame(&json!({ "type": "response.in_progress", "response": response("in_progress", &[]) })),
    ];
    for (index, item) in items.iter().enumerate() {
        let (kind, part, key, whole) = match item["type"].as_str().unwrap() {
            "reasoning" => ("reasoning_summary_text", "summary_index", "text", &item["summary"][0]["text"]),
            "message" => ("output_text", "content_index", "text", &item["content"][0]["text"]),
            _ => ("function_call_arguments", "content_index", "arguments", &item["arguments"]),
        };
        let event = |what: &str, key: &str, value: &Value| {
            frame(&json!({ "type": format!("response.{kind}.{what}"), "item_id": item["id"],
                "output_index": index, part: 0, key: value }))
        };
        frames.push(frame(
            &json!({ "type": "response.output_item.added", "output_index": index, "item": begun(item) }),
        ));
        frames.extend(words(whole.as_str().unwrap()).map(|word| event("delta", "delta", &word.into())));
        frames.push(event("done", key, whole));
        frames.push(frame(
            &json!({ "type": "response.output_item.done", "output_index": index, "item": item }),
        ));
    }
    frames.push(frame(&json!({ "type": "response.completed", "response": response("completed", items) })));
    frames
}

/// The item at its start, without content.
fn begun(item: &Value) -> Value {
    let mut begun = item.clone();
    for (key, empty) in [("summary", json!([])), ("content", json!([])), ("arguments", json!(""))] {
        if let Some(value) = begun.get_mut(key) {
            *value = empty;
        }
    }
    if begun.get("encrypted_content").is_some() {
        begun["encrypted_content"] = "".into();
    }
    begun["status"] = "in_progress".into();
    begun
}

fn frame(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
}
