//! Cursor (3): `envFile`, and variables with `env:`.

use super::{Client, Machine, Place};
use crate::syntax::Syntax;
use crate::variable::Notation;

pub(super) const CLIENT: Client = Client {
    name: "cursor",
    title: "Cursor",
    syntax: Syntax::Json,
    tables: &[&["mcpServers"]],
    notation: Notation::Dollar,
    places,
};

fn places(machine: &Machine) -> Vec<Place> {
    vec![Machine::user(machine.home.join(".cursor/mcp.json")), machine.in_project(".cursor/mcp.json")]
}
