//! What the calls of all vendors have in common: arguments in every form that models and servers
//! send, ids that are missing, names that the API would not take back. Runs nothing.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Deserializer, Map, Value, json};

use super::error::excerpt;
use super::{Reply, RequestedCall};
use haft_core::call::ToolCall;

/// What OpenAI takes for a function's name, at most, and all others do.
const NAME_CHARS: usize = 64;

/// A call as it was asked for: of `tool`, with arguments as they were sent.
pub(super) fn requested_call(id: String, tool: &str, sent: &Value) -> RequestedCall {
    let (arguments, problem) = match arguments(sent) {
        Ok(arguments) => (arguments, None),
        Err(problem) => (sent.clone(), Some(format!("invalid arguments: {problem}"))),
    };
    let problem = if tool.is_empty() { Some("the call names no tool".into()) } else { problem };
    RequestedCall { call: ToolCall { id, tool: tool.to_owned(), arguments }, problem }
}

/// Marks the last of `calls` as one that was cut off: a server that mends what it cut makes complete
/// JSON of half a call.
pub(super) fn cut_off(calls: &mut [RequestedCall]) {
    if let Some(last) = calls.last_mut() {
        last.problem = Some("the call was not run: the output limit cut it off; make it shorter".into());
    }
}

/// The arguments as an object. Some APIs say they are a string of JSON, others the object itself;
/// models and servers send either, nothing at all, and a string of a string.
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

/// The one object that `text` has several times: some servers begin with an empty one, or send all once more at the end.
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

/// Whether `arguments` are the text of an object, as APIs want them back.
pub(super) fn is_object_text(arguments: &Value) -> bool {
    arguments.as_str().is_some_and(|text| serde_json::from_str::<Map<String, Value>>(text).is_ok())
}

/// The arguments as they go back: what could not be read goes back as none, since servers parse them
/// again, and the model reads of it in the answer.
pub(super) fn echo_arguments(requested: &RequestedCall) -> Value {
    if requested.call.arguments.is_object() { requested.call.arguments.clone() } else { json!({}) }
}

/// The call's own id, or one made for it where it has none or shares it with another of the turn.
/// `earlier` is how many calls the conversation holds already.
pub(super) fn unique_id(own: Option<&str>, before: &[RequestedCall], earlier: usize) -> String {
    let taken = |id: &str| before.iter().any(|requested| requested.call.id == id);
    if let Some(own) = own.filter(|id| !id.is_empty() && !taken(id)) {
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

/// A name that every API takes back: models invent `functions.read` and worse.
pub(super) fn echo_name(name: &str) -> String {
    let name: String = word(name).chars().take(NAME_CHARS).collect();
    if name.is_empty() { "unnamed".into() } else { name }
}

/// Nine letters and digits: the form of an id that every server known to be choosy takes.
pub(super) const CHOOSY: usize = 9;

/// An id of `most` bytes that an API takes, made of one that it may not take: one that does not fit is told from others
/// by a hash.
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

/// Whether `reply` holds a message of `vendor` that can go back as it is.
pub(super) fn is_own(reply: &Reply, vendor: &str) -> bool {
    reply.vendor == vendor && reply.raw.is_object()
}
