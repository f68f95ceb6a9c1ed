//! Tools whose schema some vendor would refuse: what models are sent in its place. Part of `haft tools` and
//! `haft check`.

use haft_agent::provider::mend;
use haft_core::call::ToolDef;
use haft_core::tool::Toolbox;
use haft_mcp::client::exposed;
use serde_json::{Value, json};

use haft::program::Program;

/// What had to be changed of the schema of `def`.
pub(super) fn changes(def: &ToolDef) -> Vec<String> {
    mend(def).map(|mended| mended.changes).unwrap_or_default()
}

/// A line for each tool of `toolbox` that had to be mended.
pub(super) fn lines(toolbox: &Toolbox) -> Vec<String> {
    let line = |(name, changes): (String, Vec<String>)| {
        format!("schema mended for models: {name}: {}", changes.join("; "))
    };
    mended(toolbox).map(line).collect()
}

/// A line for each tool of an MCP server whose schema cannot be used as the server has it.
pub(super) fn server_lines(program: &Program) -> Vec<String> {
    let line = |(name, notes): (String, Vec<String>)| {
        format!("schema of an MCP server mended: {name}: {}", notes.join("; "))
    };
    of_servers(program).map(line).collect()
}

/// All of that as data.
pub(super) fn as_json(program: &Program) -> Vec<Value> {
    let all = of_servers(program).chain(mended(&program.toolbox));
    all.map(|(name, changes)| json!({ "tool": name, "changes": changes })).collect()
}

fn mended(toolbox: &Toolbox) -> impl Iterator<Item = (String, Vec<String>)> {
    let defs = toolbox.entries().map(haft_core::tool::Entry::def);
    defs.map(|def| (def.name.clone(), changes(def))).filter(|(_, changes)| !changes.is_empty())
}

/// What was mended of schemas of MCP servers before anything else saw them, and what is left unchecked of them.
fn of_servers(program: &Program) -> impl Iterator<Item = (String, Vec<String>)> {
    let lists = program
        .servers
        .iter()
        .filter_map(|server| Some((server.config().name.clone(), server.remembered()?.0)));
    let notes = lists.flat_map(|(server, list)| {
        let tools = list.tools.iter().filter(|tool| !tool.mended.is_empty());
        tools.map(|tool| (exposed(&server, &tool.name), tool.mended.clone())).collect::<Vec<_>>()
    });
    notes.filter(|(name, _)| program.toolbox.find(name).is_some())
}
