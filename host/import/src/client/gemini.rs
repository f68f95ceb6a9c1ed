//! Gemini CLI (0.4x): variables also without braces, and addresses under two keys.

use super::{Client, Machine, Place};
use crate::syntax::Syntax;
use crate::variable::Notation;

pub(super) const CLIENT: Client = Client {
    name: "gemini",
    title: "Gemini CLI",
    syntax: Syntax::Json,
    tables: &[&["mcpServers"]],
    notation: Notation::Shell,
    places,
};

fn places(machine: &Machine) -> Vec<Place> {
    vec![
        Machine::user(machine.folder("GEMINI_CLI_HOME", "").join(".gemini/settings.json")),
        machine.in_project(".gemini/settings.json"),
    ]
}
