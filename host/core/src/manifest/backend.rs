//! `[backend]`: where commands run. Only what is written; what it needs is looked for when it is used.

use super::catalogue::BACKEND;
use super::entry::{Entry, Located};
use super::section::Section;
use std::path::PathBuf;

/// The engines, as program.toml calls them.
pub(super) const ENGINES: &[(&str, ContainerEngine)] =
    &[("docker", ContainerEngine::Docker), ("podman", ContainerEngine::Podman)];

/// What runs containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerEngine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

/// `[backend]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendTable {
    /// A running container.
    pub container: Option<String>,
    /// The container engine that runs the container.
    pub engine: Option<ContainerEngine>,
    /// A host, as ssh is told it. Not to be used where there is a container too.
    pub ssh: Option<Located<String>>,
    /// The configuration of ssh; as written.
    pub ssh_config: Option<Located<PathBuf>>,
    /// Whether commands run in a pane of tmux.
    pub tmux: Option<bool>,
    /// The session of tmux.
    pub session: Option<String>,
    /// The shell of the pane.
    pub shell: Option<String>,
    /// Where commands start on the target.
    pub directory: Option<String>,
    /// The only directories of the target whose files are read and written by themselves.
    pub files: Option<Vec<String>>,
    /// Whether `run_shell`, `read_file` and `write_file` take the place of `bash`, `read`, `write` and
    /// `edit` on this machine too.
    pub target_tools: bool,
}

impl BackendTable {
    pub(super) fn read(root: &Section<'_>) -> Self {
        let Some(section) = root.get("backend", |entry| entry.section(&BACKEND)) else {
            return Self::default();
        };
        Self {
            container: section.get("container", Entry::text),
            engine: section.get("engine", |entry| entry.one_of(ENGINES)),
            ssh: section.get("ssh", |entry| entry.located(Entry::text)),
            ssh_config: section.get("ssh_config", Entry::located_path),
            tmux: section.get("tmux", Entry::flag),
            session: section.get("session", Entry::text),
            shell: section.get("shell", Entry::text),
            directory: section.get("directory", Entry::text),
            files: section.get("files", |entry| entry.list(Entry::text)),
            target_tools: section.get("target_tools", Entry::flag).unwrap_or_default(),
        }
    }
}
