//! The targets on which commands run, and the connection to the backend that the user chose. A new backend is
//! one file with a transport and one row in [`BACKENDS`]. Never falls back to another backend: commands would
//! run on another target than the user chose.

pub(crate) mod container;
pub(crate) mod files;
pub(crate) mod local;
pub(crate) mod marker;
pub(crate) mod pane;
pub(crate) mod plain;
pub(crate) mod remote_script;
pub(crate) mod script;
pub(crate) mod ssh;
pub(crate) mod target;
pub(crate) mod transport;

use std::pin::Pin;
use std::sync::Arc;

use crate::backend::container::Container;
use crate::backend::local::Local;
use crate::backend::pane::Paned;
use crate::backend::plain::Plain;
use crate::backend::ssh::Ssh;
use crate::backend::target::{BackendConfig, Place};
use crate::backend::transport::Transport;
use crate::{Backend, BackendError, HostContext};

/// One kind of target.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The name in messages.
    pub name: &'static str,
    /// Reports whether a place is of this kind.
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

/// The error of a place that belongs to another row of [`BACKENDS`].
fn misplaced() -> BackendError {
    BackendError::Target("no backend is for this target".into())
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).finish_non_exhaustive()
    }
}
