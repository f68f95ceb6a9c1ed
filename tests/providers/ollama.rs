//! The format of Ollama's chat API, as strict as its Go structs.

use serde_json::{Map, Value, json};

use super::format::{Check, echoed, ensure, known, list, name, object, text};
use super::openai::words;
use super::server::{Request, Said, Vendor, Written};

pub(super) struct Ollama;

const KEYS: &[&str] = &["model", "messages", "tools", "stream", "format", "options", "keep_alive", "think"];
const MESSAGE_KEYS: &[(&str, &[&str])] = &[
    ("system", &["role", "content"]),
    ("user", &["role", "content", "images"]),
    ("assistant", &["role", "content", "thinking", "tool_calls"]),
    ("tool", &["role", "content", "tool_name", "tool_call_id", "images"]),
];

impl Vendor for Ollama {
    fn name(&self) -> &'static str {
        "ollama"
    }

    fn base_path(&self) -> &'static str {
        ""
    }

    fn models(&self) -> &'static str {
        "/api/tags"
    }

    /// PL17: `stream` is explicit, arguments are objects, and answers have `tool_name`.
    fn check(&self, request: &Request<'_>) -> Result<bool, String> {
        ensure(request.target == "POST /api/chat", request.target)?;
        let body = object(request.body, "the body")?;
        known(body, KEYS, "the body")?;
        text(body, "model")?;
        if let Some(tools) = body.get("tools") {
            list(Some(tools), "`tools`")?.iter().try_for_each(check_tool)?;
        }
        let format = body.get("format");
        ensure(format.is_none_or(|format| format == "json" || format.is_object()), "`format`")?;
        let messages = list(body.get("messages"), "`messages`")?;
        check_messages(messages)?;
        echoed(
            &messages.iter().filter(|message| message["role"] == "assistant").collect::<Vec<_>>(),
            request.answers,
            request.moved,
        )?;
        body.get("stream").and_then(Value::as_bool).ok_or_else(|| "`stream` is not said".to_owned())
    }

    fn write(&self, said: &Said, stream: bool) -> Written {
        let mut message =
            Map::from_iter([("role".into(), "assistant".into()), ("content".into(), said.text.into())]);
        if !said.thought.is_empty() {
            message.insert("thinking".into(), said.thought.into());
        }
        // Calls have no ids.
        let calls: Vec<_> = said
            .calls
            .iter()
            .map(|(_, tool, arguments)| json!({ "function": { "name": tool, "arguments": arguments } }))
            .collect();
        if !calls.is_empty() {
            message.insert("tool_calls".into(), calls.into());
        }
        let end = json!({ "model": "fake-model-1", "created_at": "2024-01-01T00:00:00Z", "done": true, "done_reason": "stop",
            "total_duration": 1, "prompt_eval_count": 10, "eval_count": 5 });
        let echoed = Value::Object(message.clone());
        if stream {
            return Written {
                media_type: "application/x-ndjson",
                frames: lines(&message, &end),
                message: echoed,
            };
        }
        let mut body = end;
        body["message"] = message.into();
        Written {
            media_type: "application/json; charset=utf-8",
            frames: vec![body.to_string()],
            message: echoed,
        }
    }

    fn error(&self, _: u16, message: &str) -> Value {
        json!({ "error": message })
    }

    fn empty(&self) -> Value {
        json!({ "model": "m", "message": { "role": "assistant", "content": "" }, "done": true, "done_reason": "stop" })
    }

    fn error_frame(&self, message: &str) -> String {
        format!("{}\n", json!({ "error": message }))
    }

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }
}

fn check_tool(tool: &Value) -> Check {
    let tool = object(tool, "a tool")?;
    known(tool, &["type", "function"], "a tool")?;
    let function = object(&tool["function"], "`function`")?;
    known(function, &["name", "description", "parameters"], "`function`")?;
    name(function, "name")?;
    let parameters = &function["parameters"];
    ensure(parameters["type"] == "object", "`parameters` is not the schema of an object")?;
    let properties = parameters["properties"].as_object().ok_or("`properties` is missing")?;
    // Older servers do not know a list of types.
    let has_list = properties.values().any(|property| property["type"].is_array());
    ensure(!has_list, "a property with a list of types")
}

fn check_messages(messages: &[Value]) -> Check {
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        let message = object(message, "a message")?;
        let role = text(message, "role")?;
        let row = MESSAGE_KEYS.iter().find(|row| row.0 == role).ok_or(format!("unknown role `{role}`"))?;
        known(message, row.1, role)?;
        ensure(message.get("content").is_some_and(Value::is_string), "`content` is not a text")?;
        if role == "tool" {
            let tool = text(message, "tool_name")?;
            ensure(!open.is_empty() && open.remove(0) == tool, format!("`{tool}` answers no call"))?;
            continue;
        }
        ensure(open.is_empty(), format!("calls without an answer: {open:?}"))?;
        let Some(calls) = message.get("tool_calls") else { continue };
        for call in list(Some(calls), "`tool_calls`")? {
            known(object(call, "a call")?, &["id", "function"], "a call")?;
            let function = object(&call["function"], "`function`")?;
            known(function, &["index", "name", "arguments"], "`function`")?;
            object(&function["arguments"], "`arguments`")?;
            open.push(name(function, "name")?.to_owned());
        }
    }
    ensure(open.is_empty(), format!("calls without an answer: {open:?}"))
}

fn lines(message: &Map<String, Value>, end: &Value) -> Vec<String> {
    let line = |message: Value| {
        format!(
            "{}\n",
            json!({ "model": "fake-model-1", "created_at": "2024-01-01T00:00:00Z", "message": message, "done": false })
        )
    };
    let mut lines = Vec::new();
    for key in ["thinking", "content"] {
        let text = message.get(key).and_then(Value::as_str).unwrap_or_default();
        lines.extend(words(text).map(|word| {
            let mut piece = json!({ "role": "assistant", "content": "" });
            piece[key] = word.into();
            line(piece)
        }));
    }
    let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    lines.extend(calls.map(|call| line(json!({ "role": "assistant", "content": "", "tool_calls": [call] }))));
    let mut end = end.clone();
    end["message"] = json!({ "role": "assistant", "content": "" });
    lines.push(format!("{end}\n"));
    lines
}
