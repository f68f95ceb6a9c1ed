//! `[sandbox]`: how far tools reach on this machine. Only what is written; `grant` turns it into
//! rights, the kernel keeps them.

use std::path::PathBuf;

use super::catalogue::SANDBOX;
use super::entry::{Entry, Located};
use super::section::Section;
use crate::grant::{CredentialStore, SandboxMode};

/// The modes, as program.toml calls them.
pub(super) const MODES: &[(&str, SandboxMode)] =
    &[("sandbox", SandboxMode::Sandbox), ("rx", SandboxMode::Rx), ("rwx", SandboxMode::Rwx)];

/// `[sandbox]`. It holds for `bash`, command tools, MCP servers and the built-in plugins; a
/// declared plugin has its own grant.
#[derive(Clone, Debug, PartialEq)]
pub struct Sandbox {
    /// Whether writing has a limit.
    pub mode: SandboxMode,
    /// Where tools work, and what they may write; `None`: the program's folder. As written: relative to the
    /// program's folder, or below `~/`.
    pub workspace: Option<Located<PathBuf>>,
    /// The only directories that may be read, besides the workspace, `write` and what programs
    /// need to run; `None`: everything may be read.
    pub read: Option<Vec<Located<PathBuf>>>,
    /// Directories that may be written besides the workspace and the temporary directory.
    pub write: Vec<Located<PathBuf>>,
    /// What is neither read nor written, wherever it lies.
    pub deny: Vec<Located<PathBuf>>,
    /// Credential stores that are not closed.
    pub credentials: Vec<CredentialStore>,
    /// Whether child processes reach the network.
    pub network: bool,
    /// Whether child processes reach unix sockets, behind which other programs act for them.
    pub unix_sockets: bool,
}

impl Default for Sandbox {
    fn default() -> Self {
        let mode = SandboxMode::default();
        Self {
            mode,
            workspace: None,
            read: None,
            write: Vec::new(),
            deny: Vec::new(),
            credentials: Vec::new(),
            network: true,
            unix_sockets: false,
        }
    }
}

impl Sandbox {
    pub(super) fn read(root: &Section<'_>) -> Self {
        let default = Self::default();
        let Some(section) = root.get("sandbox", |entry| entry.section(&SANDBOX)) else {
            return default;
        };
        Self {
            mode: section.get("mode", |entry| entry.one_of(MODES)).unwrap_or_default(),
            workspace: section.get("workspace", Entry::located_path),
            read: section.get("read", |entry| entry.list(Entry::located_path)),
            write: section.list("write", Entry::located_path),
            deny: section.list("deny", Entry::located_path),
            credentials: section.list("credentials", Entry::parse),
            network: section.get("network", Entry::flag).unwrap_or(default.network),
            unix_sockets: section.get("unix_sockets", Entry::flag).unwrap_or(default.unix_sockets),
        }
    }
}
