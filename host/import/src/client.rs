//! The clients whose configuration files are read: one file and one row a client.

mod claude;
mod codex;
mod cursor;
mod gemini;
mod opencode;
#[cfg_attr(target_os = "linux", path = "client/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "client/platform/macos.rs")]
mod platform;
mod vscode;
mod zed;

use std::path::{Path, PathBuf};

use super::syntax::Syntax;
use super::tree::Node;
use super::variable::Notation;

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Its name on the command line.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// The format of its files.
    pub(crate) syntax: Syntax,
    /// The tables of its files that hold servers, by the keys that lead to them. `*` is any key: a project.
    pub(crate) tables: &'static [&'static [&'static str]],
    /// How it writes variables.
    pub(crate) notation: Notation,
    /// Where its files are, whether they exist or not.
    pub(crate) places: fn(&Machine) -> Vec<Place>,
}

/// All clients. Of several that have the same table, the first has a file that is none of their places.
pub const CLIENTS: &[Client] = &[
    claude::CLIENT,
    codex::CLIENT,
    gemini::CLIENT,
    cursor::CLIENT,
    vscode::CLIENT,
    zed::CLIENT,
    opencode::CLIENT,
];

/// The folders that clients keep their files in.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The person's home.
    pub home: PathBuf,
    /// `$XDG_CONFIG_HOME`.
    pub config: PathBuf,
    /// The project: the current folder.
    pub project: PathBuf,
}

/// A file of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// Whom it is for.
    pub scope: &'static str,
}

impl Machine {
    /// The folder that the variable `name` of the environment names, or `default` in the home.
    fn folder(&self, name: &str, default: &str) -> PathBuf {
        match std::env::var_os(name) {
            Some(folder) if !folder.is_empty() => self.project.join(folder),
            _ => self.home.join(default),
        }
    }

    /// A file for all projects of the user.
    fn user(path: PathBuf) -> Place {
        Place { path, scope: "user" }
    }

    /// A file of the project.
    fn in_project(&self, name: &str) -> Place {
        Place { path: self.project.join(name), scope: "project" }
    }
}

impl Client {
    /// The client of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.name == name)
    }

    /// Where its files are, whether they exist or not.
    pub fn places(&self, machine: &Machine) -> Vec<Place> {
        (self.places)(machine)
    }

    /// The client whose file `path` with the content `root` is: the one that has it at this place, or else the first that
    /// has such a table.
    pub(crate) fn of_file(path: &Path, root: &Node, machine: &Machine) -> Option<(&'static Self, Place)> {
        let has = |client: &&Self| client.tables.iter().any(|keys| !under(root, keys).is_empty());
        let candidates = || CLIENTS.iter().filter(has);
        let real = |path: &Path| path.canonicalize().ok();
        let own = candidates().find_map(|client| {
            let place = client.places(machine).into_iter().find(|place| real(&place.path) == real(path));
            Some((client, place?))
        });
        let file = || Place { path: path.to_owned(), scope: "file" };
        own.or_else(|| candidates().next().map(|client| (client, file())))
    }
}

/// The tables that `keys` lead to, each with what `*` stands for.
pub(crate) fn under<'a>(node: &'a Node, keys: &[&str]) -> Vec<(Option<&'a str>, &'a Node)> {
    match keys.split_first() {
        None => vec![(None, node)].into_iter().filter(|(_, node)| node.is_table()).collect(),
        Some((&"*", rest)) => {
            let members = node.members().iter();
            let below = members.flat_map(|one| {
                under(&one.node, rest).into_iter().map(|(_, node)| (Some(one.key.as_str()), node))
            });
            below.collect()
        }
        Some((key, rest)) => node.get(key).map(|node| under(node, rest)).unwrap_or_default(),
    }
}
