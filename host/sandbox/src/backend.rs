//! The targets on which commands run, and the connection to the backend that the user chose. A new backend is
//! one file with a transport and one row in [`BACKENDS`]. Never falls back to another backend: commands would
//! run on another target than the user chose.

pub(crate) mod container;
pub(crate) mod files;
pub(crate) mod marker;
pub(crate) mod pane;
pub(crate) mod plain;
pub(crate) mod remote_script;
pub(crate) mod script;
pub(crate) mod ssh;
pub(crate) mod transport;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use self::container::Container;
use self::pane::Paned;
use self::plain::Plain;
use self::ssh::Ssh;
use self::transport::{Local, Transport};
use crate::{Backend, BackendError, HostContext};

/// One kind of target.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The name in messages.
    pub name: &'static str,
    is: fn(&Place) -> bool,
    /// Connects to the target.
    reach: for<'a> fn(&'a HostContext, &'a Place) -> Reaching<'a>,
    /// Whether a pane is used by default if the target has tmux.
    prefers_pane: bool,
}

type Reaching<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Transport>, BackendError>> + Send + 'a>>;

/// All kinds of targets.
pub const BACKENDS: &[Kind] = &[
    Kind {
        name: "local",
        is: |place| matches!(place, Place::Local),
        reach: |host_context, _| {
            Box::pin(async move { Ok(Arc::new(Local::new(host_context)) as Arc<dyn Transport>) })
        },
        prefers_pane: false,
    },
    Kind {
        name: "container",
        is: |place| matches!(place, Place::Container { .. }),
        reach: |host_context, place| {
            Box::pin(async move {
                let Place::Container { name, engine } = place else { return Err(misplaced()) };
                Ok(Arc::new(Container::find(host_context, name, *engine).await?) as Arc<dyn Transport>)
            })
        },
        prefers_pane: false,
    },
    Kind {
        name: "ssh",
        is: |place| matches!(place, Place::Ssh { .. }),
        reach: |host_context, place| {
            Box::pin(async move {
                let Place::Ssh { target, config } = place else { return Err(misplaced()) };
                Ok(Arc::new(Ssh::connect(host_context, target, config.as_deref()).await?)
                    as Arc<dyn Transport>)
            })
        },
        prefers_pane: true,
    },
];

/// Connects to the chosen backend, and prepares everything that it needs on the target.
pub async fn connect(
    choice: &BackendConfig,
    host_context: &HostContext,
) -> Result<Arc<dyn Backend>, BackendError> {
    let kind = BACKENDS.iter().find(|kind| (kind.is)(&choice.place)).ok_or_else(misplaced)?;
    let transport = (kind.reach)(host_context, &choice.place).await?;
    let plain = Arc::new(Plain::new(transport, choice));
    let wants_pane = choice.tmux.unwrap_or(kind.prefers_pane);
    if !wants_pane {
        return Ok(plain);
    }
    match Paned::open(plain.clone(), choice, host_context).await {
        Ok(paned) => Ok(Arc::new(paned)),
        Err(BackendError::NoTmux { .. }) if choice.tmux.is_none() => Ok(plain),
        Err(error) => {
            plain.close().await;
            Err(error)
        }
    }
}

/// Returns the error of a place that belongs to another row of [`BACKENDS`].
fn misplaced() -> BackendError {
    BackendError::Target("no backend supports this target".into())
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).finish_non_exhaustive()
    }
}

// The configuration of the backend: a target, a pane, a directory.

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
