//! Which backend, as somebody chose it, and how it is made. Adding one is one file with a carrier and
//! one row in [`BACKENDS`]. It refuses to fall back on another backend: commands would run elsewhere
//! than they were meant to.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use crate::backend::container::Container;
use crate::backend::local::Local;
use crate::backend::pane::Paned;
use crate::backend::plain::Plain;
use crate::backend::ssh::Ssh;
use crate::backend::transport::Transport;
use crate::{Backend, BackendError, HostContext};

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
        /// Whose it is; whoever has it where nothing is said.
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
    pub const ALL: &[Self] = &[Self::Docker, Self::Podman];

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

/// One kind of target.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Its name in messages.
    pub name: &'static str,
    /// Whether a place is of this kind.
    is: fn(&Place) -> bool,
    /// Finds the way there.
    reach: for<'a> fn(&'a HostContext, &'a Place) -> Reaching<'a>,
    /// Whether a pane is used where nothing is said and the target has tmux.
    prefers_pane: bool,
}

type Reaching<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Transport>, BackendError>> + Send + 'a>>;

/// All kinds of targets.
pub const BACKENDS: &[Kind] = &[
    Kind {
        name: "local",
        is: |place| matches!(place, Place::Local),
        reach: |ground, _| Box::pin(async move { Ok(Arc::new(Local::new(ground)) as Arc<dyn Transport>) }),
        prefers_pane: false,
    },
    Kind {
        name: "container",
        is: |place| matches!(place, Place::Container { .. }),
        reach: |ground, place| {
            Box::pin(async move {
                let Place::Container { name, engine } = place else { return Err(misplaced()) };
                Ok(Arc::new(Container::find(ground, name, *engine).await?) as Arc<dyn Transport>)
            })
        },
        prefers_pane: false,
    },
    Kind {
        name: "ssh",
        is: |place| matches!(place, Place::Ssh { .. }),
        reach: |ground, place| {
            Box::pin(async move {
                let Place::Ssh { target, config } = place else { return Err(misplaced()) };
                Ok(Arc::new(Ssh::connect(ground, target, config.as_deref()).await?) as Arc<dyn Transport>)
            })
        },
        prefers_pane: true,
    },
];

/// Makes the backend that was chosen, and everything on the target that it needs.
pub async fn connect(choice: &BackendConfig, ground: &HostContext) -> Result<Arc<dyn Backend>, BackendError> {
    let kind = BACKENDS.iter().find(|kind| (kind.is)(&choice.place)).ok_or_else(misplaced)?;
    let carrier = (kind.reach)(ground, &choice.place).await?;
    let plain = Arc::new(Plain::new(carrier, choice));
    let wants_pane = choice.tmux.unwrap_or(kind.prefers_pane);
    if !wants_pane {
        return Ok(plain);
    }
    match Paned::open(plain.clone(), choice, ground).await {
        Ok(paned) => Ok(Arc::new(paned)),
        Err(BackendError::NoTmux { .. }) if choice.tmux.is_none() => Ok(plain),
        Err(error) => {
            plain.close().await;
            Err(error)
        }
    }
}

/// A row of [`BACKENDS`] was asked for what is another's.
fn misplaced() -> BackendError {
    BackendError::Target("no backend is for this target".into())
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).finish_non_exhaustive()
    }
}
