//! The way to a target: how `sh` is started there. It refuses to know what the shell is for.

use std::ffi::OsString;
use std::fmt::Debug;
use std::path::PathBuf;

use async_trait::async_trait;

use crate::backend::script::BOOT;
use crate::confine::Confiner;
use crate::error::BackendError;
use haft_core::grant::{Grant, Root};
use haft_core::lookup::HostPrograms;

/// On whose behalf a shell is started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunAs<'a> {
    /// haft's own: it handles panes, and never runs what a model wrote.
    Haft,
    /// A model's, who may do this on this machine.
    Model(&'a Grant),
}

/// A command line of this machine that ends in `sh` on the target.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// What starts it, and with which rights.
    pub(crate) confiner: Confiner,
    pub(crate) grant: Grant,
    /// Held while the line is in use.
    pub(crate) place: Option<tokio::sync::OwnedSemaphorePermit>,
}

/// A way to a target.
#[async_trait]
pub(crate) trait Transport: Send + Sync + Debug {
    /// What the target is called: `container:web (via podman)`.
    fn name(&self) -> String;

    /// Its kind, for messages: `local`, `container`, `ssh`.
    fn kind(&self) -> &'static str;

    /// What holds commands there.
    fn confinement(&self) -> String;

    /// How `sh` with [`BOOT`] is started there.
    async fn line(&self, run_as: RunAs<'_>) -> Result<Line, BackendError>;

    /// Why a script ended without its last line; `words` is what it wrote to standard error.
    async fn lost(&self, words: &str) -> String;

    /// What stands before a command's `sh` to confine it there, for the shell of the target.
    fn wrapper(&self) -> String {
        String::new()
    }

    /// Ends what was kept for it.
    async fn close(&self) {}
}

/// The variables that tell container engines and ssh where their counterparts are. None of them is a
/// secret, and what they lead to is what a person would have used too.
const MESSENGERS: &[&str] =
    &["CONTAINER", "DOCKER_", "PODMAN_", "SSH_AUTH_SOCK", "XDG_", "DBUS_SESSION_BUS_ADDRESS"];

/// The line for a transport process of haft's own.
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

/// The words that start the shell.
pub(crate) fn shell() -> [OsString; 3] {
    ["sh".into(), "-c".into(), BOOT.into()]
}
