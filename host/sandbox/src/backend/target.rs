//! The backend that the user chose: a target, a pane, a directory.

use std::path::PathBuf;

/// Where commands run, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendConfig {
    /// The target.
    pub place: Place,
    /// Whether in a pane of tmux; `None`: where there is tmux, if the target is another host.
    pub tmux: Option<bool>,
    /// The session of tmux; haft's own name where none is given.
    pub session: Option<String>,
    /// The shell of the pane; the target's usual one where none is given.
    pub shell: Option<String>,
    /// Where commands start on the target; where its shells start where none is given. On this
    /// machine it is the workspace, always.
    pub directory: Option<String>,
    /// The only directories of the target whose files are read and written by themselves; `None`:
    /// all but the system's own and those with keys.
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
        /// Its name or identifier.
        name: String,
        /// The container engine; where none is set, the first that has the container.
        engine: Option<Engine>,
    },
    /// Another host.
    Ssh {
        /// As `ssh` is told it: `host`, `user@host`, a name of its configuration, `ssh://…`.
        target: String,
        /// The configuration of ssh; the user's own where none is given.
        config: Option<PathBuf>,
    },
}

/// What runs containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

impl Engine {
    /// Every one, in the order in which they are looked for.
    pub(crate) const ALL: &[Self] = &[Self::Docker, Self::Podman];

    /// The name of its program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// The option for a command that reads standard input.
    pub(crate) fn interactive(self) -> &'static str {
        match self {
            Self::Docker => "-i",
            Self::Podman => "--interactive",
        }
    }
}
