//! What a plugin lists, checked: it comes from somebody else's code and goes to models.

use serde_json::Value;

use super::bindings::exports::haft::plugin::tools;
use super::failure::LoadError;
use crate::call::{Hints, ToolDef};
use crate::tool::{Schema, exposed_name};

/// Tools of one plugin. More than a model can choose from.
const MAX_TOOLS: usize = 256;

/// Characters of a description; the longest in use are some thousands.
const MAX_DESCRIPTION: usize = 16_000;

/// The tools of a plugin, or what is wrong with one of them.
pub(super) fn check(listed: Vec<tools::ToolDef>) -> Result<Vec<ToolDef>, LoadError> {
    if listed.len() > MAX_TOOLS {
        return Err(LoadError::Tool(format!("{} tools, and at most {MAX_TOOLS} are allowed", listed.len())));
    }
    let mut checked: Vec<ToolDef> = Vec::with_capacity(listed.len());
    for tool in listed {
        let name = tool.name.clone();
        let tool = check_one(tool).map_err(|problem| LoadError::Tool(format!("`{name}`: {problem}")))?;
        if checked.iter().any(|other| other.name == tool.name) {
            return Err(LoadError::Tool(format!("`{name}` is listed twice")));
        }
        checked.push(tool);
    }
    Ok(checked)
}

fn check_one(tool: tools::ToolDef) -> Result<ToolDef, String> {
    if exposed_name(&[&tool.name]) != tool.name {
        return Err("a name has 1 to 64 letters, digits, `_` and `-`".into());
    }
    if tool.description.chars().count() > MAX_DESCRIPTION {
        return Err(format!("a description has at most {MAX_DESCRIPTION} characters"));
    }
    let parameters = json(&tool.parameters, "parameters are")?;
    Schema::compile(&parameters).map_err(|error| error.to_string())?;
    let output = tool.output_schema.map(|schema| json(&schema, "output schema is")).transpose()?;
    if output.as_ref().is_some_and(|schema| Schema::compile(schema).is_err()) {
        return Err("its output schema is no JSON Schema with `\"type\": \"object\"`".into());
    }
    let tools::Hints { read_only, destructive, idempotent, open_world } = tool.hints;
    let hints = Hints { read_only, destructive, idempotent, open_world };
    Ok(ToolDef { name: tool.name, description: tool.description, parameters, hints, output })
}

fn json(text: &str, what: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("its {what} not JSON: {error}"))
}
