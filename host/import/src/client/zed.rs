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
    // The same place on macOS.
    let user = if cfg!(target_os = "macos") { machine.home.join(".config") } else { machine.config.clone() };
    vec![Machine::user(user.join("zed/settings.json")), machine.in_project(".zed/settings.json")]
}
