//! Claude Code (2.1): servers of the user, of the user in one project, and of a project; Claude Desktop.

use super::{Client, Machine, Place, platform};
use crate::syntax::Syntax;
use crate::variable::Notation;

pub(super) const CLIENT: Client = Client {
    name: "claude",
    title: "Claude",
    syntax: Syntax::Json,
    tables: &[&["mcpServers"], &["projects", "*", "mcpServers"]],
    notation: Notation::Dollar,
    places,
};

fn places(machine: &Machine) -> Vec<Place> {
    let desktop = platform::applications(machine).join("Claude/claude_desktop_config.json");
    vec![
        Machine::user(machine.folder("CLAUDE_CONFIG_DIR", "").join(".claude.json")),
        machine.in_project(".mcp.json"),
        Place { path: desktop, scope: "desktop" },
    ]
}
