//! opencode: `mcp` has the servers themselves (1) or under `servers` (2); a command is a list of words.

use super::{Client, Machine, Place};
use crate::syntax::Syntax;
use crate::variable::Notation;

pub(super) const CLIENT: Client = Client {
    name: "opencode",
    title: "opencode",
    syntax: Syntax::Json,
    tables: &[&["mcp"], &["mcp", "servers"]],
    notation: Notation::Brace,
    places,
};

fn places(machine: &Machine) -> Vec<Place> {
    let user = machine.config.join("opencode");
    let users = ["opencode.json", "opencode.jsonc", "config.json"].map(|name| Machine::user(user.join(name)));
    let projects = ["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"];
    users.into_iter().chain(projects.map(|name| machine.in_project(name))).collect()
}
