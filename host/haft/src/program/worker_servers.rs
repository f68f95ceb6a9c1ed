//! MCP servers that run on workers: their tools, as listed by the workers. Starts nothing.

use std::sync::Arc;

use super::contribution::{Contribution, NewTool};
use super::machines::elsewhere;
use super::options::{Ask, Options};
use super::patterns;
use super::rights::Rights;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::report::Problem;
use haft_manifest::{Manifest, McpServer};
use haft_mcp::client;
use haft_nats::{Gate, Known, NatsTool};

/// Returns the tools of MCP servers on workers. Only the workers know these tools.
pub(super) async fn contribution(rights: &Rights<'_>) -> Contribution {
    let Rights { options, manifest, placement, .. } = rights;
    let mut found = Contribution::default();
    let remote = manifest.mcp_servers.iter().filter(|server| server.enabled && !server.on.is_empty());
    for server in remote.filter(|server| !placement.runs(&server.on)) {
        let prefix = patterns::server_prefix(server.name.as_str());
        match placement.gate() {
            Some(gate) if is_asked(server, options) => found.append(of_one(manifest, server, gate).await),
            Some(_) => {
                found.is_partial |= options.known_only;
                found.unseen.note(prefix, "the MCP servers of workers have not been listed");
            }
            None if placement.is_worker() => {}
            None => found.unseen.note(prefix, elsewhere(&server.on)),
        }
    }
    found
}

/// Returns whether workers are asked for the tools of `server`.
fn is_asked(server: &McpServer, options: &Options) -> bool {
    let may_be_called = options.only.as_ref().is_none_or(|tool| client::owns(server.name.as_str(), tool));
    may_be_called && !options.known_only && (options.ask != Ask::Never || options.many_calls)
}

async fn of_one(manifest: &Manifest, server: &McpServer, gate: &Arc<Gate>) -> Contribution {
    let (name, mut found) = (server.name.as_str(), Contribution::default());
    let tools = gate.tools(&server.on, |tool| client::owns(name, tool)).await.unwrap_or_else(|error| {
        let problem = Problem::new(format!("the tools of MCP server `{name}` are not known: {error}"));
        found.problems.push(problem.at(server.name.span, "runs on workers").warning());
        Vec::new()
    });
    if tools.is_empty() {
        found.unseen.note(patterns::server_prefix(name), "no worker has it");
    }
    let origin = format!("MCP server `{name}` at {}, on workers", manifest.source.place(server.name.span));
    let limits = NatsTool::limits(Limits { time: server.timeout, ..Limits::default() });
    let new = |known: &Known| {
        let tool = Arc::new(NatsTool::known(gate, known, &server.on));
        NewTool::new(tool, Grant::none(), limits, origin.clone())
    };
    found.tools = tools.iter().filter(|known| is_offered(server, known)).map(new).collect();
    found
}

/// Returns whether program.toml offers the tool. The worker has applied its own program.toml
/// before.
fn is_offered(server: &McpServer, known: &Known) -> bool {
    let prefix = patterns::server_prefix(server.name.as_str());
    let own = known.def.name.strip_prefix(&prefix).unwrap_or(&known.def.name);
    patterns::select(server.tools.as_deref(), own)
}
