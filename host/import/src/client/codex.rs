//! Codex (0.13x): TOML, without variables; `env_vars` names those that are handed on.

use super::{Client, Machine, Place};
use crate::syntax::Syntax;
use crate::variable::Notation;

pub(super) const CLIENT: Client = Client {
    name: "codex",
    title: "Codex",
    syntax: Syntax::Toml,
    tables: &[&["mcp_servers"]],
    notation: Notation::None,
    places,
};

fn places(machine: &Machine) -> Vec<Place> {
    vec![
        Machine::user(machine.folder("CODEX_HOME", ".codex").join("config.toml")),
        machine.in_project(".codex/config.toml"),
    ]
}
