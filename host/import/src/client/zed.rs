//! Zed (1): `context_servers`, without variables. Before 0.195 the command was a table.

use super::{Client, Machine, Place};
use crate::syntax::Syntax;
use crate::variable::Notation;

pub(super) const CLIENT: Client = Client {
    name: "zed",
    title: "Zed",
    syntax: Syntax::Json,
    tables: &[&["context_servers"]],
    notation: Notation::None,
    places,
};

fn places(machine: &Machine) -> Vec<Place> {
    vec![Machine::user(machine.config.join("zed/settings.json")), machine.in_project(".zed/settings.json")]
}
