//! MCP servers that live on workers: their tools, as the workers tell of them. Nothing is started here.

use std::sync::Arc;

use super::assembly::Assembly;
use super::machines::elsewhere;
use super::options::{Ask, Options};
use super::patterns;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::report::Problem;
use haft_manifest::{McpServer, ToolPattern};
use haft_mcp::client;
use haft_nats::{Gate, Known, NatsTool};

/// Puts in what workers have of the MCP servers that live there. Only they know what those have.
pub(super) async fn add(assembly: &mut Assembly<'_>, options: &Options) -> anyhow::Result<()> {
    let (manifest, placement) = (assembly.manifest, assembly.placement.clone());
    let remote = manifest.mcp_servers.iter().filter(|server| server.enabled && !server.on.is_empty());
    for server in remote.filter(|server| !placement.runs(&server.on)) {
        let prefix = patterns::server_prefix(server.name.as_str());
        match placement.gate().cloned() {
            Some(gate) if is_asked(server, options) => add_tools(assembly, server, &gate).await?,
            Some(_) => {
                assembly.is_complete &= !options.known_only;
                assembly.unseen.note(prefix, "no worker was asked what its MCP servers have");
            }
            None if placement.is_worker() => {}
            None => assembly.unseen.note(prefix, elsewhere(&server.on)),
        }
    }
    Ok(())
}

/// Whether workers are asked for the tools of `server`.
fn is_asked(server: &McpServer, options: &Options) -> bool {
    let may_be_called = options.only.as_ref().is_none_or(|tool| client::owns(server.name.as_str(), tool));
    may_be_called && !options.known_only && (options.ask != Ask::Never || options.many_calls)
}

async fn add_tools(assembly: &mut Assembly<'_>, server: &McpServer, gate: &Arc<Gate>) -> anyhow::Result<()> {
    let name = server.name.as_str();
    let tools = match gate.tools(&server.on, |tool| client::owns(name, tool)).await {
        Ok(tools) => tools,
        Err(error) => {
            let problem = Problem::new(format!("the tools of MCP server `{name}` are not known: {error}"));
            assembly.problems.push(problem.at(server.name.span, "lives on workers").warning());
            Vec::new()
        }
    };
    if tools.is_empty() {
        assembly.unseen.note(patterns::server_prefix(name), "no worker is there that has it");
    }
    let place = assembly.manifest.source.place(server.name.span);
    for known in tools.iter().filter(|known| is_offered(server, known)) {
        let (tool, origin) =
            (NatsTool::known(gate, known, &server.on), format!("MCP server `{name}` at {place}, on workers"));
        let limits = NatsTool::limits(Limits { time: server.timeout, ..Limits::default() });
        assembly.insert(Arc::new(tool), &Grant::none(), limits, origin, None)?;
    }
    Ok(())
}

/// Whether program.toml offers the tool here. The worker's own has had its say.
fn is_offered(server: &McpServer, known: &Known) -> bool {
    let prefix = patterns::server_prefix(server.name.as_str());
    let own = known.def.name.strip_prefix(&prefix).unwrap_or(&known.def.name);
    let offers = |patterns: &Vec<ToolPattern>| patterns.iter().any(|pattern| pattern.matches(own));
    server.tools.as_ref().is_none_or(offers)
}
