//! The MCP clients whose configuration files haft reads: one row for each client.

use std::path::{Path, PathBuf};

use super::syntax::{Node, Syntax};
use super::variable::Notation;

/// A client.
#[derive(Debug)]
pub struct Client {
    /// The client's name on the command line.
    pub name: &'static str,
    /// The display name.
    pub title: &'static str,
    /// The format of the client's files.
    pub(crate) syntax: Syntax,
    /// The tables of the client's files that contain servers, by their keys. `*` is any key: a project.
    pub(crate) tables: &'static [&'static [&'static str]],
    /// The client's notation of variables.
    pub(crate) notation: Notation,
    /// Returns the locations of the client's files, existing or not.
    pub(crate) places: fn(&Machine) -> Vec<Place>,
}

/// All clients. Of several clients with one table, the first one gets a file at an unknown location.
pub const CLIENTS: &[Client] = &[
    // Claude Code (2.1): servers of the user, of the user in one project, and of a project; Claude Desktop.
    Client {
        name: "claude",
        title: "Claude",
        syntax: Syntax::Json,
        tables: &[&["mcpServers"], &["projects", "*", "mcpServers"]],
        notation: Notation::Dollar,
        places: |machine| {
            let desktop = machine.applications().join("Claude/claude_desktop_config.json");
            vec![
                Machine::user(machine.folder("CLAUDE_CONFIG_DIR", "").join(".claude.json")),
                machine.in_project(".mcp.json"),
                Place { path: desktop, scope: "desktop" },
            ]
        },
    },
    // Codex (0.13x): without variable references; `env_vars` names the passed variables.
    Client {
        name: "codex",
        title: "Codex",
        syntax: Syntax::Toml,
        tables: &[&["mcp_servers"]],
        notation: Notation::None,
        places: |machine| {
            let user = machine.folder("CODEX_HOME", ".codex").join("config.toml");
            vec![Machine::user(user), machine.in_project(".codex/config.toml")]
        },
    },
    // Gemini CLI (0.4x): variables also without braces, and addresses under two keys.
    Client {
        name: "gemini",
        title: "Gemini CLI",
        syntax: Syntax::Json,
        tables: &[&["mcpServers"]],
        notation: Notation::Shell,
        places: |machine| {
            let user = machine.folder("GEMINI_CLI_HOME", "").join(".gemini/settings.json");
            vec![Machine::user(user), machine.in_project(".gemini/settings.json")]
        },
    },
    // Cursor (3): `envFile`, and variables with `env:`.
    Client {
        name: "cursor",
        title: "Cursor",
        syntax: Syntax::Json,
        tables: &[&["mcpServers"]],
        notation: Notation::Dollar,
        places: |machine| {
            vec![Machine::user(machine.home.join(".cursor/mcp.json")), machine.in_project(".cursor/mcp.json")]
        },
    },
    // VS Code (1.12x): `inputs` are prompts to the user.
    Client {
        name: "vscode",
        title: "VS Code",
        syntax: Syntax::Json,
        tables: &[&["servers"]],
        notation: Notation::Dollar,
        places: vscode,
    },
    // Zed (1), without variables. Before 0.195 the command was a table.
    Client {
        name: "zed",
        title: "Zed",
        syntax: Syntax::Json,
        tables: &[&["context_servers"]],
        notation: Notation::None,
        places: |machine| {
            let user = machine.config.join("zed/settings.json");
            vec![Machine::user(user), machine.in_project(".zed/settings.json")]
        },
    },
    // opencode: `mcp` has the servers themselves (1) or under `servers` (2); a command is a list of words.
    Client {
        name: "opencode",
        title: "opencode",
        syntax: Syntax::Json,
        tables: &[&["mcp"], &["mcp", "servers"]],
        notation: Notation::Brace,
        places: |machine| {
            let user = |name| Machine::user(machine.config.join("opencode").join(name));
            let users = ["opencode.json", "opencode.jsonc", "config.json"].map(user);
            let projects =
                ["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"];
            users.into_iter().chain(projects.map(|name| machine.in_project(name))).collect()
        },
    },
];

const EDITIONS: &[&str] = &["Code", "Code - Insiders", "VSCodium"];

/// Maximum number of examined profiles of an edition.
const MAX_PROFILES: usize = 100;

/// Returns a file for each edition of VS Code, for each profile, and for the project.
fn vscode(machine: &Machine) -> Vec<Place> {
    let users = EDITIONS.iter().map(|edition| machine.applications().join(edition).join("User"));
    let files = users.flat_map(|user| {
        let profiles = std::fs::read_dir(user.join("profiles")).into_iter().flatten().flatten();
        let mut profiles: Vec<_> = profiles.take(MAX_PROFILES).map(|entry| entry.path()).collect();
        profiles.sort();
        [user].into_iter().chain(profiles).map(|folder| Machine::user(folder.join("mcp.json")))
    });
    files.chain([machine.in_project(".vscode/mcp.json")]).collect()
}

/// The folders that clients keep their files in.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The user's home.
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
    /// The scope of the file.
    pub scope: &'static str,
}

impl Machine {
    /// Returns the folder that the variable `name` of the environment names, or `default` in the home.
    fn folder(&self, name: &str, default: &str) -> PathBuf {
        match std::env::var_os(name) {
            Some(folder) if !folder.is_empty() => self.project.join(folder),
            _ => self.home.join(default),
        }
    }

    /// Returns the directory of desktop applications' files.
    #[cfg(target_os = "linux")]
    fn applications(&self) -> PathBuf {
        self.config.clone()
    }

    /// Returns the directory of desktop applications' files.
    #[cfg(target_os = "macos")]
    fn applications(&self) -> PathBuf {
        self.home.join("Library/Application Support")
    }

    /// Returns a file for all projects of the user.
    fn user(path: PathBuf) -> Place {
        Place { path, scope: "user" }
    }

    fn in_project(&self, name: &str) -> Place {
        Place { path: self.project.join(name), scope: "project" }
    }
}

impl Client {
    /// Returns the client of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.name == name)
    }

    /// Returns the locations of the client's files, existing or not.
    pub fn places(&self, machine: &Machine) -> Vec<Place> {
        (self.places)(machine)
    }

    /// Returns the client of the file `path` with the content `root`: the client with this location, otherwise
    /// the first client with such a table.
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

/// Returns the tables at `keys`, each with the match of `*`.
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
