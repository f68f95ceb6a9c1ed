//! The description of a program that clients get before they list its tools.

use std::fmt::Write;

use super::super::Program;
use super::ToolChoice;
use haft_core::tool::foreign;
use haft_mcp::server::ServerInfo;

/// Returns the program's own description, and the workspace of its tools.
pub(super) fn about(program: &Program, choice: &ToolChoice) -> ServerInfo {
    let own = program.manifest.program.as_ref();
    let has_one_server = program.servers.iter().len() == 1;
    let mut instructions = own.and_then(|own| own.description.clone()).unwrap_or_default();
    if let Some(workspace) = program.grant.workspace() {
        // Writing to a `String` cannot fail.
        let _ = write!(
            instructions,
            "{}Relative paths are below `{}`. Files may be written in {} (sandbox mode `{}`).",
            if instructions.is_empty() { "" } else { "\n\n" },
            workspace.path().display(),
            writable(program),
            program.manifest.sandbox.mode.as_str(),
        );
    }
    instructions.push_str("\nIf a tool is denied access, the hint in its answer is for the user.");
    if !program.left_out.is_empty() {
        instructions
            .push_str(" Some tools are left out until the user runs `haft trust` in the program's folder.");
    }
    let (title, of_servers) = (own.map(|own| own.name.as_str().to_owned()), of_servers(program, choice));
    let awaits_servers = !program.servers.unknown().is_empty();
    ServerInfo { title, instructions, of_servers, has_one_server, awaits_servers }
}

/// Returns the instructions of MCP servers to models, each quoted so that it cannot pass for haft's text.
fn of_servers(program: &Program, choice: &ToolChoice) -> Vec<(String, String)> {
    let is_served = |name: &str| choice.server.as_deref().is_none_or(|server| server == name);
    let said = program.servers.iter().filter_map(|server| {
        let name = server.config().name.as_str();
        let (listed, _) = server.remembered().filter(|_| is_served(name) && choice.plugin.is_none())?;
        let words = foreign(listed.instructions()?.trim()).into_owned();
        let prefix = format!("mcp__{name}__");
        let words = format!("\n\nMCP server `{name}` (tools `{prefix}…`) says:\n{words}");
        Some((prefix, words))
    });
    said.collect()
}

fn writable(program: &Program) -> String {
    let roots = program.grant.writable().roots();
    let paths: Vec<_> = roots.iter().map(|root| format!("`{}`", root.path().display())).collect();
    if paths.is_empty() { "no directory".to_owned() } else { paths.join(", ") }
}
