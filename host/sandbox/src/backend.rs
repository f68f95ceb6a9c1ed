//! The targets on which commands run, and the connection to the backend that the user chose. A new backend is
//! one file with a transport, and one arm in [`connect`]. Never falls back to another backend: commands would
//! run on another target than the user chose.

pub(crate) mod container;
pub(crate) mod marker;
pub(crate) mod pane;
pub(crate) mod plain;
pub(crate) mod remote_script;
pub(crate) mod script;
pub(crate) mod ssh;
pub(crate) mod transport;

use std::path::PathBuf;
use std::sync::Arc;

use self::container::Container;
use self::pane::Paned;
use self::plain::Plain;
use self::ssh::Ssh;
use self::transport::{Local, Transport};
use crate::{Backend, BackendError, HostContext};
use haft_manifest::ContainerEngine;

/// Connects to the chosen backend, and prepares everything that it needs on the target.
pub async fn connect(
    choice: &BackendConfig,
    host_context: &HostContext,
) -> Result<Arc<dyn Backend>, BackendError> {
    // Whether a pane is used by default if the target has tmux.
    let (transport, prefers_pane): (Arc<dyn Transport>, bool) = match &choice.place {
        Place::Local => (Arc::new(Local::new(host_context)), false),
        Place::Container { name, engine } => {
            (Arc::new(Container::find(host_context, name, *engine).await?), false)
        }
        Place::Ssh { target, config } => {
            (Arc::new(Ssh::connect(host_context, target, config.as_deref()).await?), true)
        }
    };
    let plain = Arc::new(Plain::new(transport, choice));
    if !choice.tmux.unwrap_or(prefers_pane) {
        return Ok(plain);
    }
    match Paned::open(plain.clone(), choice, host_context).await {
        Ok(paned) => Ok(Arc::new(paned)),
        Err(BackendError::NoTmux(_)) if choice.tmux.is_none() => Ok(plain),
        Err(error) => {
            plain.close().await;
            Err(error)
        }
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
        engine: Option<ContainerEngine>,
    },
    /// Another host.
    Ssh {
        /// A target of `ssh`: `host`, `user@host`, a name in its configuration, `ssh://…`.
        target: String,
        /// The configuration file of ssh; `None` for the user's default.
        config: Option<PathBuf>,
    },
}
