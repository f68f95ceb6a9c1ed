//! The generic tool `program`: calls any other tool by its name. It is no tool of its own but another
//! way to write a call, so that the tool it means is found, checked, bounded, told and noted like
//! any other, under its own name and with its own rights. It refuses to call itself.

use serde_json::{Map, Value, json};

use super::entry::Entry;
use crate::call::{Hints, ToolDef};

/// What it is called.
pub(super) const NAME: &str = "program";

/// Where it comes from.
pub(super) const ORIGIN: &str = "built in";

/// What models are told about it.
pub(super) fn def() -> ToolDef {
    let parameters = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "The tool's name" },
            "args": { "type": "object", "description": "Its arguments, as its own parameters say" },
        },
        "required": ["name"],
        "additionalProperties": false,
    });
    // What it does is what the tool does that it calls.
    let hints = Hints { destructive: true, open_world: true, ..Hints::default() };
    let description = "Runs any tool by its name, also one that is not listed here.".into();
    ToolDef { name: NAME.into(), description, parameters, hints, ..ToolDef::default() }
}

/// The name and the arguments of a call of `program`, as written.
pub(super) fn name_and_arguments(arguments: &Value) -> Result<(&str, &Value), String> {
    let name = arguments.get("name").and_then(Value::as_str).map(str::trim).unwrap_or_default();
    if name.is_empty() {
        return Err("`name` is required: the name of a tool".into());
    }
    let stranger = |key: &&String| !matches!(key.as_str(), "name" | "args");
    match arguments.as_object().and_then(|object| object.keys().find(stranger)) {
        Some(key) => Err(format!("`{key}` is not allowed beside `name` and `args`; write it in `args`")),
        None => Ok((name, arguments.get("args").unwrap_or(&Value::Null))),
    }
}

/// The arguments for `entry`: an object, also as the JSON text that models make of one; for a tool
/// that takes any further words as `args`, those words.
pub(super) fn arguments_for(arguments: &Value, entry: Option<&Entry>) -> Result<Value, String> {
    let takes_words =
        || entry.is_some_and(|entry| entry.def().parameters.pointer("/properties/args").is_some());
    match arguments {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(_) => Ok(arguments.clone()),
        Value::String(text) if text.trim().is_empty() => Ok(Value::Object(Map::new())),
        Value::String(text) => match crate::json::read(text.as_bytes()) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => arguments_for(&value, entry),
            _ => Err(NO_OBJECT.into()),
        },
        Value::Array(_) if takes_words() => Ok(json!({ "args": arguments })),
        _ => Err(NO_OBJECT.into()),
    }
}

const NO_OBJECT: &str =
    "`args` must be an object with the arguments of the tool, such as `{\"path\": \"x\"}`";

#[cfg(test)]
mod tests;
