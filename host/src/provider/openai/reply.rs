//! Reads the assistant's message of a chat completion: its text, its calls, and the form in
//! which it goes back. Never fails: what cannot be read becomes a problem for the model.

use serde_json::{Map, Value, json};

use crate::call::ToolCall;
use crate::provider::error::excerpt;
use crate::provider::{Reply, Wanted};

/// What OpenAI takes for a function's name, at most.
const NAME_CHARS: usize = 64;

/// Reads `message`. `cut` says that the limit of output tokens ended it; `earlier` is how many
/// calls the conversation holds already, from which missing ids are made.
pub(super) fn decode(message: &Map<String, Value>, cut: bool, earlier: usize) -> Reply {
    let sent = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut calls: Vec<Wanted> = Vec::new();
    let mut echoes = Vec::new();
    for entry in sent.iter().filter_map(Value::as_object) {
        let id = unique_id(entry, &calls, earlier);
        let wanted = wanted(entry, id);
        echoes.push(echo_call(entry, &wanted));
        calls.push(wanted);
    }
    // A server that mends what it cut off makes complete JSON of half a call.
    if let Some(last) = calls.last_mut().filter(|_| cut) {
        let problem = "the call was not run: the output limit cut it off; make it shorter";
        last.problem = Some(problem.into());
    }
    let text = text(message);
    Reply { raw: echo(message, &text, echoes), text, calls, ..Reply::default() }
}

/// Why the model declined, where it did.
pub(super) fn refusal(message: &Map<String, Value>) -> Option<&str> {
    let part = || {
        let parts = message.get("content")?.as_array()?;
        parts.iter().find_map(|part| part.get("refusal")?.as_str())
    };
    message.get("refusal").and_then(Value::as_str).or_else(part).filter(|text| !text.is_empty())
}

/// The text: `content` as a string or as an array of parts, or the refusal that takes its place.
fn text(message: &Map<String, Value>) -> String {
    let text = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(part_text).collect(),
        _ => String::new(),
    };
    if text.is_empty() { refusal(message).unwrap_or_default().to_owned() } else { text }
}

fn part_text(part: &Value) -> Option<&str> {
    part.as_str().or_else(|| part.get("text")?.as_str())
}

/// The message as it goes back: everything that was sent, unknown keys included, and mended
/// where the same API would not take back what it gave.
fn echo(message: &Map<String, Value>, text: &str, calls: Vec<Value>) -> Value {
    let mut echo = message.clone();
    // A null says nothing, and some servers refuse to read back the ones they write.
    echo.retain(|key, value| key == "content" || !value.is_null());
    echo.insert("role".into(), "assistant".into());
    if calls.is_empty() {
        echo.shift_remove("tool_calls");
        if echo.get("content").is_none_or(Value::is_null) {
            echo.insert("content".into(), text.into());
        }
    } else {
        echo.insert("tool_calls".into(), calls.into());
        echo.entry("content").or_insert(Value::Null);
    }
    Value::Object(echo)
}

fn echo_call(entry: &Map<String, Value>, wanted: &Wanted) -> Value {
    let mut echo = entry.clone();
    echo.retain(|_, value| !value.is_null());
    echo.insert("id".into(), wanted.call.id.as_str().into());
    echo.insert("type".into(), "function".into());
    let mut function = function(entry).cloned().unwrap_or_default();
    function.insert("name".into(), echo_name(&wanted.call.tool).into());
    // Servers that put the arguments into a template parse them again and answer 500 to what
    // they cannot parse, for the rest of the conversation. The model reads of it in the answer.
    if wanted.problem.is_some() || !function.get("arguments").is_some_and(is_object_text) {
        let arguments =
            if wanted.call.arguments.is_object() { wanted.call.arguments.to_string() } else { "{}".into() };
        function.insert("arguments".into(), arguments.into());
    }
    echo.insert("function".into(), function.into());
    Value::Object(echo)
}

/// A name that the API takes back: models invent `functions.read` and worse.
fn echo_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = name.chars().take(NAME_CHARS).map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() { "unnamed".into() } else { name }
}

fn is_object_text(arguments: &Value) -> bool {
    arguments.as_str().is_some_and(|text| serde_json::from_str::<Map<String, Value>>(text).is_ok())
}

fn function(entry: &Map<String, Value>) -> Option<&Map<String, Value>> {
    entry.get("function")?.as_object()
}

fn wanted(entry: &Map<String, Value>, id: String) -> Wanted {
    let function = function(entry);
    let tool = function.and_then(|f| f.get("name")).and_then(Value::as_str).unwrap_or_default().to_owned();
    let sent = function.and_then(|f| f.get("arguments")).unwrap_or(&Value::Null);
    let (arguments, problem) = match arguments(sent) {
        Ok(arguments) => (arguments, None),
        Err(problem) => (sent.clone(), Some(format!("invalid arguments: {problem}"))),
    };
    let problem = if tool.is_empty() { Some("the call names no tool".into()) } else { problem };
    Wanted { call: ToolCall { id, tool, arguments }, problem }
}

/// The arguments as an object. The API says they are a string of JSON; models and servers also
/// send nothing, the object itself, and a string of a string.
fn arguments(sent: &Value) -> Result<Value, String> {
    match sent {
        Value::Null => Ok(json!({})),
        Value::Object(_) => Ok(sent.clone()),
        Value::String(text) => parse(text, true),
        other => Err(format!("expected a JSON object, got `{}`", excerpt(&other.to_string()))),
    }
}

fn parse(text: &str, may_nest: bool) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    match serde_json::from_str(text) {
        Ok(Value::Null) => Ok(json!({})),
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(Value::String(inner)) if may_nest => parse(&inner, false),
        Ok(_) => Err(format!("expected a JSON object, got `{}`", excerpt(text))),
        Err(error) => Err(format!("expected a JSON object: {error}, in `{}`", excerpt(text))),
    }
}

/// The call's own id, or one made for it where it has none or shares it with another of the turn.
fn unique_id(entry: &Map<String, Value>, before: &[Wanted], earlier: usize) -> String {
    let taken = |id: &str| before.iter().any(|wanted| wanted.call.id == id);
    let own = entry.get("id").and_then(Value::as_str).filter(|id| !id.is_empty() && !taken(id));
    if let Some(own) = own {
        return own.to_owned();
    }
    // Nine letters and digits: the one form that every server known to be choosy takes.
    let made = |number: usize| format!("haft{number:05}");
    let mut number = earlier + before.len();
    while taken(&made(number)) {
        number += 1;
    }
    made(number)
}
