//! Tool calls, for all vendors: arguments in every form that models and servers send, missing ids, and names that
//! the APIs would reject when they are sent back. Runs no tool.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Deserializer, Map, Value, json};

use super::error::excerpt;
use super::{Reply, RequestedCall};
use haft_core::call::ToolCall;

/// The maximum length of a function name for OpenAI; all other vendors accept it too.
const NAME_CHARS: usize = 64;

/// Reads a call from its id and its function, whose arguments are at the key `arguments_key`. `before`: the earlier
/// calls of the turn. `earlier`: the number of calls already in the conversation.
pub(super) fn requested_call(
    id: Option<&Value>,
    function: Option<&Map<String, Value>>,
    arguments_key: &str,
    before: &[RequestedCall],
    earlier: usize,
) -> RequestedCall {
    let part = |key| function.and_then(|function| function.get(key)).unwrap_or(&Value::Null);
    let id = unique_id(id.and_then(Value::as_str), before, earlier);
    let (tool, sent) = (part("name").as_str().unwrap_or_default(), part(arguments_key));
    let (arguments, problem) = match arguments(sent) {
        Ok(arguments) => (arguments, None),
        Err(problem) => (sent.clone(), Some(format!("invalid arguments: {problem}"))),
    };
    let problem = if tool.is_empty() { Some("the call names no tool".into()) } else { problem };
    RequestedCall { call: ToolCall { id, tool: tool.to_owned(), arguments }, problem }
}

/// Marks the last of `calls` as cut off: a server that repairs JSON turns half a call into a valid one.
pub(super) fn cut_off(calls: &mut [RequestedCall]) {
    if let Some(last) = calls.last_mut() {
        last.problem = Some("the call was not run: the output limit cut it off; make it shorter".into());
    }
}

/// Returns the arguments as an object. Some APIs specify a string of JSON, others an object; models and servers
/// send either, nothing at all, or a string within a string.
pub(super) fn arguments(sent: &Value) -> Result<Value, String> {
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
    match haft_core::json::read(text.as_bytes()) {
        Ok(Value::Null) => Ok(json!({})),
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(Value::String(inner)) if may_nest => parse(&inner, false),
        Ok(_) => Err(format!("expected a JSON object, got `{}`", excerpt(text))),
        Err(error) => {
            repeated(text).ok_or_else(|| format!("expected a JSON object: {error}, in `{}`", excerpt(text)))
        }
    }
}

/// Returns the only object in `text` if it is repeated: some servers begin with an empty object, or send the
/// complete object again at the end.
fn repeated(text: &str) -> Option<Value> {
    let mut found = None;
    for object in Deserializer::from_str(text).into_iter::<Map<String, Value>>() {
        let object = object.ok()?;
        match &found {
            _ if object.is_empty() => {}
            None => found = Some(object),
            Some(before) if *before == object => {}
            Some(_) => return None,
        }
    }
    Some(found.unwrap_or_default().into())
}

/// Returns whether `arguments` are the text of a JSON object, the form in which APIs accept them back.
pub(super) fn is_object_text(arguments: &Value) -> bool {
    arguments.as_str().is_some_and(|text| serde_json::from_str::<Map<String, Value>>(text).is_ok())
}

/// Returns the arguments to send back. Unreadable arguments become an empty object, because servers parse them
/// again; the answer of the call reports the problem to the model.
pub(super) fn echo_arguments(requested: &RequestedCall) -> Value {
    if requested.call.arguments.is_object() { requested.call.arguments.clone() } else { json!({}) }
}

/// Returns the id of a call, or a generated one if it is missing or not unique within the turn.
fn unique_id(id: Option<&str>, before: &[RequestedCall], earlier: usize) -> String {
    let taken = |id: &str| before.iter().any(|requested| requested.call.id == id);
    if let Some(id) = id.filter(|id| !id.is_empty() && !taken(id)) {
        return id.to_owned();
    }
    // Nine letters and digits: a form that every known server accepts.
    let made = |number: usize| format!("haft{number:05}");
    let mut number = earlier + before.len();
    while taken(&made(number)) {
        number += 1;
    }
    made(number)
}

/// Returns a name that every API accepts back: models invent names such as `functions.read`.
pub(super) fn echo_name(name: &str) -> String {
    let name: String = word(name).chars().take(NAME_CHARS).collect();
    if name.is_empty() { "unnamed".into() } else { name }
}

/// The length of an id that every known server accepts: nine letters and digits.
pub(super) const CHOOSY: usize = 9;

/// Converts `id` to one of at most `most` bytes that the API accepts. A hash keeps converted ids distinct.
pub(super) fn fit_id(id: &str, most: usize) -> String {
    let fitting = word(id);
    let is_plain = fitting.len() == CHOOSY && fitting.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain || (most > CHOOSY && fitting.len() <= most && !fitting.is_empty()) {
        return fitting;
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    let hash = format!("{:016x}", hasher.finish());
    let start: String = fitting.chars().take(most.saturating_sub(hash.len() + 1)).collect();
    if start.is_empty() { hash.chars().take(most).collect() } else { format!("{start}_{hash}") }
}

fn word(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.chars().map(|c| if fits(c) { c } else { '_' }).collect()
}

/// Returns whether `reply` holds a message of `vendor` that can be sent back unmodified.
pub(super) fn is_own(reply: &Reply, vendor: &str) -> bool {
    reply.vendor == vendor && reply.raw.is_object()
}
