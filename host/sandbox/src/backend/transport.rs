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
    fn wrapper(&self) -> &'static str {
        ""
    }

    async fn close(&self) {}
}

/// Prefixes of variables that tell container engines and ssh where their servers are. None of them is a secret,
/// and a person's own commands would use them too.
const MESSENGERS: &[&str] =
    &["CONTAINER", "DOCKER_", "PODMAN_", "SSH_AUTH_SOCK", "XDG_", "DBUS_SESSION_BUS_ADDRESS"];

/// Starts haft's own transport processes: supervised, not confined.
#[derive(Clone, Debug)]
pub(crate) struct Messenger {
    confiner: Confiner,
    programs: HostPrograms,
}

impl Messenger {
    pub(crate) fn new(host_context: &HostContext) -> Self {
        let programs = HostPrograms::of(&host_context.grant);
        Self { confiner: host_context.transport_confiner.clone(), programs }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.programs.find(name).is_some()
    }

    /// Returns the line of a transport process.
    pub(crate) fn line(&self, name: &str, arguments: Vec<OsString>) -> Result<Line, BackendError> {
        let program = self.programs.find(name);
        let program = program.ok_or_else(|| BackendError::Target(HostPrograms::missing(name)))?;
        let everywhere = Root::everything();
        let grant = Grant::none().with_read_anywhere().with_network(true).with_workspace(everywhere);
        let is_needed = |name: &OsString| {
            let name = name.to_str();
            name.is_some_and(|name| MESSENGERS.iter().any(|known| name.starts_with(known)))
        };
        let path = (OsString::from("PATH"), self.programs.path());
        let environment = std::env::vars_os().filter(|(name, _)| is_needed(name)).chain([path]).collect();
        Ok(Line { program, arguments, environment, confiner: self.confiner.clone(), grant, place: None })
    }
}

/// The program and the arguments that start the shell.
pub(crate) const SHELL: [&str; 3] = ["sh", "-c", BOOT];

// This machine as a target. The kernel's sandbox confines a model's commands; haft's own transport processes,
// which control panes, run outside of it. Never runs a model's command without the sandbox.

#[derive(Debug)]
pub(crate) struct Local {
    confiner: Confiner,
    messenger: Messenger,
}

impl Local {
    pub(crate) fn new(host_context: &HostContext) -> Self {
        Self { confiner: host_context.confiner.clone(), messenger: Messenger::new(host_context) }
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
        let [name, arguments @ ..] = SHELL;
        let line = self.messenger.line(name, arguments.map(OsString::from).into())?;
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
