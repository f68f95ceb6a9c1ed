//! The generic tool `program`: calls any other tool by its name. It is no tool of its own but another
//! way to write a call, so that the tool it means is found, checked, bounded, told and noted like
//! any other, under its own name and with its own rights. It refuses to call itself.

use serde_json::{Map, Value, json};

use super::ToolError;
use super::toolbox::{Entry, Toolbox};
use crate::call::{Hints, ToolCall, ToolDef};

/// What it is called.
pub(super) const NAME: &str = "program";

/// Where it comes from.
pub(super) const ORIGIN: &str = "built in";

/// Tools that a short name could mean and that are named.
const MAX_NAMED: usize = 5;

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
    ToolDef { name: NAME.into(), description, parameters, hints, output: None }
}

impl Toolbox {
    /// The call that `call` asks for by way of `program`; `None` where it asks for nothing but
    /// itself. Fails where it is clear neither what to call nor with what.
    pub fn meant(&self, call: &ToolCall) -> Result<Option<ToolCall>, ToolError> {
        if !call.tool.eq_ignore_ascii_case(NAME) || self.find(&call.tool).is_some() {
            return Ok(None);
        }
        let (name, arguments) = parts(&call.arguments).map_err(ToolError::InvalidArguments)?;
        let entry = self.called(name).map_err(ToolError::InvalidArguments)?;
        let arguments = read(arguments, entry).map_err(ToolError::InvalidArguments)?;
        let tool = entry.map_or(name, |entry| &entry.def().name).to_owned();
        Ok(Some(ToolCall { id: call.id.clone(), tool, arguments }))
    }

    /// The tool that `name` means here: that of this name, else the only one whose own name it is,
    /// without the plugin's or program's before it.
    fn called(&self, name: &str) -> Result<Option<&Entry>, String> {
        if name.eq_ignore_ascii_case(NAME) {
            return Err(format!("`{NAME}` does not run itself; name the tool that is meant"));
        }
        if let Some(entry) = self.find(name) {
            return Ok(Some(entry));
        }
        let is_own =
            |entry: &&Entry| entry.def().name.strip_suffix(name).is_some_and(|before| before.ends_with("__"));
        let found: Vec<&Entry> = self.entries().filter(is_own).collect();
        match found.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(only)),
            several => {
                let names = several.iter().take(MAX_NAMED).map(|entry| format!("`{}`", entry.def().name));
                let names = names.collect::<Vec<_>>().join(", ");
                let more = several.len().saturating_sub(MAX_NAMED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                Err(format!("{} tools could be meant by `{name}`: {names}{more}", several.len()))
            }
        }
    }
}

/// Name and arguments, as written.
fn parts(arguments: &Value) -> Result<(&str, &Value), String> {
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
fn read(arguments: &Value, entry: Option<&Entry>) -> Result<Value, String> {
    let takes_words =
        || entry.is_some_and(|entry| entry.def().parameters.pointer("/properties/args").is_some());
    match arguments {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(_) => Ok(arguments.clone()),
        Value::String(text) if text.trim().is_empty() => Ok(Value::Object(Map::new())),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => read(&value, entry),
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
