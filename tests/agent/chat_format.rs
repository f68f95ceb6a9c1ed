//! OpenAI's chat completions request, as published: the check reports each violation that the real endpoint answers
//! with status 400. The check does not depend on the sender.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::providers::format::{arrays_have_items, properties_are_named};

/// Top-level keys of a request.
const KEYS: &[&str] = &[
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "seed",
    "stop",
    "reasoning_effort",
    "response_format",
    "user",
];
const MESSAGE_KEYS: &[(&str, &[&str])] = &[
    ("system", &["role", "content", "name"]),
    ("user", &["role", "content", "name"]),
    // `reasoning_content`: servers of reasoning models add this key and expect it back.
    ("assistant", &["role", "content", "tool_calls", "refusal", "name", "annotations", "reasoning_content"]),
    ("tool", &["role", "content", "tool_call_id"]),
];

type Check = Result<(), String>;

/// Returns the first violation in `body`, if any.
pub(crate) fn check(body: &Value) -> Check {
    let body = object(body, "the body")?;
    known(body, KEYS, "the body")?;
    non_empty(body, "model")?;
    let streams = body.get("stream") == Some(&true.into());
    ensure(streams || !body.contains_key("stream_options"), "`stream_options` without `stream`")?;
    if let Some(tools) = body.get("tools") {
        check_tools(tools)?;
    }
    if let Some(format) = body.get("response_format") {
        check_format(format)?;
    }
    check_messages(body.get("messages").and_then(Value::as_array).ok_or("`messages` is not an array")?)
}

/// A named JSON Schema.
fn check_format(format: &Value) -> Check {
    let format = object(format, "`response_format`")?;
    known(format, &["type", "json_schema"], "`response_format`")?;
    ensure(format.get("type") == Some(&"json_schema".into()), "`response_format.type` is not `json_schema`")?;
    let named = object(format.get("json_schema").unwrap_or(&Value::Null), "`json_schema`")?;
    known(named, &["name", "description", "strict", "schema"], "`json_schema`")?;
    check_named_schema(named)
}

pub(crate) fn check_named_schema(named: &Map<String, Value>) -> Check {
    check_name(named)?;
    ensure(named.get("strict").is_none_or(Value::is_boolean), "`strict` is no flag")?;
    let schema = named.get("schema").ok_or("there is no `schema`")?;
    properties_are_named(schema)?;
    ensure(schema.is_object() && jsonschema::meta::is_valid(schema), "`schema` is not a JSON Schema")
}

fn check_tools(tools: &Value) -> Check {
    let tools = tools.as_array().ok_or("`tools` is not an array")?;
    ensure((1..=128).contains(&tools.len()), "`tools` has none or more than 128 items")?;
    let mut names = BTreeSet::new();
    for tool in tools {
        let tool = object(tool, "a tool")?;
        known(tool, &["type", "function"], "a tool")?;
        ensure(tool.get("type") == Some(&"function".into()), "a tool's `type` is not `function`")?;
        let function = object(tool.get("function").unwrap_or(&Value::Null), "`function`")?;
        known(function, &["name", "description", "parameters", "strict"], "`function`")?;
        let name = check_name(function)?;
        ensure(names.insert(name.clone()), &format!("two tools have the name `{name}`"))?;
        check_schema(function.get("parameters").unwrap_or(&Value::Null))?;
    }
    Ok(())
}

pub(crate) fn check_schema(schema: &Value) -> Check {
    let object = object(schema, "`parameters`")?;
    ensure(object.get("type") == Some(&"object".into()), "`parameters` is not the schema of an object")?;
    arrays_have_items(schema)?;
    ensure(jsonschema::meta::is_valid(schema), "`parameters` is not a JSON Schema")
}

fn check_messages(messages: &[Value]) -> Check {
    ensure(!messages.is_empty(), "`messages` is empty")?;
    // The calls of the last assistant message that have no answer yet.
    let mut open: Vec<String> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let message = object(message, "a message")?;
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let (_, keys) =
            MESSAGE_KEYS.iter().find(|(known, _)| *known == role).ok_or(format!("unknown role `{role}`"))?;
        known(message, keys, role)?;
        if role == "tool" {
            check_content(message)?;
            let id = non_empty(message, "tool_call_id")?;
            let position = open.iter().position(|other| *other == id);
            open.remove(position.ok_or(format!("`{id}` answers no call of the turn before it"))?);
            continue;
        }
        ensure(open.is_empty(), &format!("calls without an answer: {open:?}"))?;
        match role {
            "system" => ensure(index == 0, "a system message is not the first")?,
            "assistant" => open = check_assistant(message)?,
            _ => {}
        }
        if open.is_empty() {
            check_content(message)?;
        }
    }
    ensure(open.is_empty(), &format!("calls without an answer: {open:?}"))
}

/// The ids of the calls of an assistant message.
fn check_assistant(message: &Map<String, Value>) -> Result<Vec<String>, String> {
    let Some(calls) = message.get("tool_calls") else { return Ok(Vec::new()) };
    let calls = calls.as_array().ok_or("`tool_calls` is not an array")?;
    ensure(!calls.is_empty(), "`tool_calls` is empty")?;
    let mut ids = Vec::new();
    for call in calls {
        let call = object(call, "a call")?;
        ensure(call.get("type") == Some(&"function".into()), "a call's `type` is not `function`")?;
        let id = non_empty(call, "id")?;
        ensure(!ids.contains(&id), &format!("two calls have the id `{id}`"))?;
        ids.push(id);
        let function = object(call.get("function").unwrap_or(&Value::Null), "`function`")?;
        check_name(function)?;
        let arguments =
            function.get("arguments").and_then(Value::as_str).ok_or("`arguments` is not a string")?;
        // OpenAI does not require this, but every server that inserts the arguments into a template does.
        let parsed: Result<Map<String, Value>, _> = serde_json::from_str(arguments);
        ensure(parsed.is_ok(), &format!("`arguments` is not the JSON of an object: {arguments}"))?;
    }
    Ok(ids)
}

fn check_content(message: &Map<String, Value>) -> Check {
    let content = message.get("content");
    ensure(content.is_some_and(|content| content.is_string() || content.is_array()), "`content` is not text")
}

fn check_name(function: &Map<String, Value>) -> Result<String, String> {
    let name = non_empty(function, "name")?;
    let fits = name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    ensure(fits, &format!("`{name}` does not match ^[a-zA-Z0-9_-]{{1,64}}$"))?;
    Ok(name)
}

fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{what} is not an object"))
}

fn non_empty(object: &Map<String, Value>, key: &str) -> Result<String, String> {
    let text = object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("`{key}` is not a text with something in it"))
}

fn known(object: &Map<String, Value>, keys: &[&str], what: &str) -> Check {
    let unknown: Vec<_> = object.keys().filter(|key| !keys.contains(&key.as_str())).collect();
    ensure(unknown.is_empty(), &format!("{what} has unknown keys: {unknown:?}"))
}

fn ensure(holds: bool, otherwise: &str) -> Check {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

/// The fake must refuse every request that the real endpoint refuses.
#[test]
fn the_format_is_checked() {
    use serde_json::json;
    let calls = |id: &str, arguments: &str| {
        json!({ "role": "assistant", "content": null, "tool_calls":
        [{ "id": id, "type": "function", "function": { "name": "t", "arguments": arguments } }] })
    };
    let answer = json!({ "role": "tool", "tool_call_id": "a", "content": "x" });
    let user = json!({ "role": "user", "content": "x" });
    let with = |messages: Value| json!({ "model": "m", "messages": messages });
    assert_eq!(check(&with(json!([user, calls("a", "{}"), answer]))), Ok(()));
    for (broken, expected) in [
        (json!({ "messages": [user] }), "`model`"),
        (with(json!([])), "`messages` is empty"),
        (with(json!([calls("a", "{}"), user])), "without an answer"),
        (with(json!([calls("a", "{}")])), "without an answer"),
        (with(json!([calls("b", "{}"), answer])), "answers no call"),
        (with(json!([calls("a", "{"), answer])), "not the JSON of an object"),
        (with(json!([{ "role": "assistant", "content": null }])), "`content` is not text"),
        (with(json!([user, { "role": "system", "content": "x" }])), "not the first"),
        (json!({ "model": "m", "messages": [user], "tools": [] }), "`tools` has none"),
        (json!({ "model": "m", "messages": [user], "haft": 1 }), "unknown keys"),
        (json!({ "model": "m", "messages": [user], "stream_options": {} }), "without `stream`"),
    ] {
        let found = check(&broken).unwrap_err();
        assert!(found.contains(expected), "{found}");
    }
}
