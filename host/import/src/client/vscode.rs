//! VS Code (1.12x): `servers`, and `inputs` that the person is asked for; a file for each profile.

use super::{Client, Machine, Place, platform};
use crate::syntax::Syntax;
use crate::variable::Notation;

pub(super) const CLIENT: Client = Client {
    name: "vscode",
    title: "VS Code",
    syntax: Syntax::Json,
    tables: &[&["servers"]],
    notation: Notation::Dollar,
    places,
};

/// The folders of its editions.
const EDITIONS: &[&str] = &["Code", "Code - Insiders", "VSCodium"];

/// The most profiles of an edition that are looked at.
const MAX_PROFILES: usize = 100;

fn places(machine: &Machine) -> Vec<Place> {
    let users = EDITIONS.iter().map(|edition| platform::applications(machine).join(edition).join("User"));
    let files = users.flat_map(|user| {
        let profiles = std::fs::read_dir(user.join("profiles")).into_iter().flatten().flatten();
        let mut profiles: Vec<_> = profiles.take(MAX_PROFILES).map(|entry| entry.path()).collect();
        profiles.sort();
        [user].into_iter().chain(profiles).map(|folder| Machine::user(folder.join("mcp.json")))
    });
    files.chain([machine.in_project(".vscode/mcp.json")]).collect()
}
