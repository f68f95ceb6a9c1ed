//! The configuration of the backend: a target, a pane, a directory.

use std::path::PathBuf;

/// The target of commands and its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendConfig {
    /// The target.
    pub place: Place,
    /// Whether a tmux pane is used; `None`: if the target is another host and has tmux.
    pub tmux: Option<bool>,
    /// The tmux session; `None` for haft's default.
    pub session: Option<String>,
    /// The shell of the pane; `None` for the target's default.
    pub shell: Option<String>,
    /// The initial directory on the target; `None` for its shell's default. On this machine it is always the
    /// workspace.
    pub directory: Option<String>,
    /// The only directories of the target whose files the file tools access; `None`: all except system
    /// directories and those with keys.
    pub files: Option<Vec<String>>,
}

/// A target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// This machine.
    #[default]
    Local,
    /// A running container.
    Container {
        /// The name or identifier.
        name: String,
        /// The container engine; `None` for the first that has the container.
        engine: Option<Engine>,
    },
    /// Another host.
    Ssh {
        /// A target of `ssh`: `host`, `user@host`, a name in its configuration, `ssh://…`.
        target: String,
        /// The configuration file of ssh; `None` for the user's default.
        config: Option<PathBuf>,
    },
}

/// A container engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

impl Engine {
    /// All engines, in search order.
    pub(crate) const ALL: &[Self] = &[Self::Docker, Self::Podman];

    /// Returns the name of its program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// Returns the option for a command that reads standard input.
    pub(crate) fn interactive(self) -> &'static str {
        match self {
            Self::Docker => "-i",
            Self::Podman => "--interactive",
        }
    }
}
