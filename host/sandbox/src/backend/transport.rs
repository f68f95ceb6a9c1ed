//! The interface of a transport, which starts `sh` on a target. Knows nothing of the purpose of the shell.

use std::ffi::OsString;
use std::fmt::Debug;
use std::path::PathBuf;

use async_trait::async_trait;

use crate::HostContext;
use crate::backend::script::BOOT;
use crate::confine::Confiner;
use crate::error::BackendError;
use haft_core::grant::{Grant, Root};
use haft_core::lookup::HostPrograms;

/// The party on whose behalf a shell is started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunAs<'a> {
    /// haft itself: controls panes, and never runs a model's text.
    Haft,
    /// A model, with these rights on this machine.
    Model(&'a Grant),
}

/// A command line on this machine that starts `sh` on the target.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The confiner and the rights of the process.
    pub(crate) confiner: Confiner,
    pub(crate) grant: Grant,
    /// The slot of a connection, held while the line is in use.
    pub(crate) place: Option<tokio::sync::OwnedSemaphorePermit>,
}

#[async_trait]
pub(crate) trait Transport: Send + Sync + Debug {
    /// Returns the target's display name: `container:web (via podman)`.
    fn name(&self) -> String;

    /// Returns the kind, for messages: `local`, `container`, `ssh`.
    fn kind(&self) -> &'static str;

    /// Describes the confinement of commands on the target.
    fn confinement(&self) -> String;

    /// Returns the line that starts `sh` with [`BOOT`] on the target.
    async fn line(&self, run_as: RunAs<'_>) -> Result<Line, BackendError>;

    /// Explains why a script ended without its status line; `words` is its standard error.
    async fn lost(&self, words: &str) -> String;

    /// Returns the prefix that confines a command on the target, in the target's shell syntax.
    fn wrapper(&self) -> String {
        String::new()
    }

    /// Releases the resources of the transport.
    async fn close(&self) {}
}

/// Prefixes of variables that tell container engines and ssh where their servers are. None of them is a secret,
/// and a person's own commands would use them too.
const MESSENGERS: &[&str] =
    &["CONTAINER", "DOCKER_", "PODMAN_", "SSH_AUTH_SOCK", "XDG_", "DBUS_SESSION_BUS_ADDRESS"];

/// Returns the line of one of haft's own transport processes.
pub(crate) fn transport_line(
    (confiner, programs): (&Confiner, &HostPrograms),
    program: PathBuf,
    arguments: Vec<OsString>,
) -> Line {
    let everywhere = Root::everything();
    let grant = Grant::none().with_read_anywhere().with_network(true).with_workspace(everywhere);
    let is_needed = |name: &OsString| {
        let name = name.to_str();
        name.is_some_and(|name| MESSENGERS.iter().any(|known| name.starts_with(known)))
    };
    let path = (OsString::from("PATH"), programs.path());
    let environment = std::env::vars_os().filter(|(name, _)| is_needed(name)).chain([path]).collect();
    Line { program, arguments, environment, confiner: confiner.clone(), grant, place: None }
}

/// Returns the command that starts the shell.
pub(crate) fn shell() -> [OsString; 3] {
    ["sh".into(), "-c".into(), BOOT.into()]
}

// This machine as a target. The kernel's sandbox confines a model's commands; haft's own transport processes,
// which control panes, run outside of it. Never runs a model's command without the sandbox.

#[derive(Debug)]
pub(crate) struct Local {
    confiner: Confiner,
    transport_confiner: Confiner,
    programs: HostPrograms,
}

impl Local {
    pub(crate) fn new(host_context: &HostContext) -> Self {
        Self {
            confiner: host_context.confiner.clone(),
            transport_confiner: host_context.transport_confiner.clone(),
            programs: HostPrograms::of(&host_context.grant),
        }
    }
}

#[async_trait]
impl Transport for Local {
    fn name(&self) -> String {
        "local".into()
    }

    fn kind(&self) -> &'static str {
        "local"
    }

    fn confinement(&self) -> String {
        self.confiner.describe()
    }

    async fn line(&self, run_as: RunAs<'_>) -> Result<Line, BackendError> {
        let [name, arguments @ ..] = shell();
        let program = name.to_str().and_then(|name| self.programs.find(name));
        let program = program.ok_or_else(|| BackendError::Missing("`sh` is not on PATH".into()))?;
        let line = transport_line((&self.transport_confiner, &self.programs), program, arguments.into());
        Ok(match run_as {
            RunAs::Haft => line,
            RunAs::Model(grant) => Line {
                environment: Vec::new(),
                confiner: self.confiner.clone(),
                grant: grant.clone(),
                ..line
            },
        })
    }

    async fn lost(&self, words: &str) -> String {
        match words {
            "" => "the command ended before its exit status was known".into(),
            words => format!("the command could not be run: {words}"),
        }
    }
}
