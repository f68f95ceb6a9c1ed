//! Tools whose schema some vendor would refuse: what models are sent in its place. Part of `haft tools` and
//! `haft check`.

use haft_agent::provider::mend;
use haft_core::call::ToolDef;
use haft_core::tool::Toolbox;
use serde_json::{Value, json};

/// What had to be changed of the schema of `def`.
pub(super) fn changes(def: &ToolDef) -> Vec<String> {
    mend(def).map(|mended| mended.changes).unwrap_or_default()
}

/// A line for each tool of `toolbox` that had to be mended.
pub(super) fn lines(toolbox: &Toolbox) -> Vec<String> {
    let line = |(def, changes): (&ToolDef, Vec<String>)| {
        format!("schema mended for models: {}: {}", def.name, changes.join("; "))
    };
    mended(toolbox).map(line).collect()
}

/// The same as data.
pub(super) fn as_json(toolbox: &Toolbox) -> Vec<Value> {
    mended(toolbox).map(|(def, changes)| json!({ "tool": def.name, "changes": changes })).collect()
}

fn mended(toolbox: &Toolbox) -> impl Iterator<Item = (&ToolDef, Vec<String>)> {
    let defs = toolbox.entries().map(haft_core::tool::Entry::def);
    defs.map(|def| (def, changes(def))).filter(|(_, changes)| !changes.is_empty())
}
