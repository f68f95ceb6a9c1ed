//! The execution of commands, and all child processes of haft. A [`Backend`] runs commands and transfers files:
//! on this machine, in a container or on another host, with or without a tmux pane. Below it, [`process`] runs
//! one child to its end, [`process::service`] keeps one running, and [`confine`] confines both to their grants;
//! no other code starts a child. Knows nothing of the purpose of a command.
//!
//! # The parts of a backend
//! - a **transport** starts `sh` on the target: `local`, `container`, `ssh`;
//! - a **remote script** is sent to that shell, its output is read while it runs, and it ends with a status
//!   line that begins with an unguessable nonce;
//! - `plain` runs a command in a new shell on the target, `pane` in a tmux pane that a person can watch.

mod backend;
pub mod confine;
mod error;
pub mod native;
pub mod process;
pub mod selftest;

use std::fmt::Debug;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use self::backend::pane::{Captured, Snapshot};
pub use self::backend::plain::Piece;
pub use self::backend::{BackendConfig, Place, connect};
use self::confine::Confiner;
pub use self::error::BackendError;
pub use self::process::{attached, service, start};
use haft_core::grant::Grant;
use haft_core::tool::Context;

/// Runs the sandbox's part of this process, if it was started as one: the helper, or the self-test's escape
/// attempt. Must be called first in `main`, before a second thread exists; returns `None` after an ordinary
/// start. A program that never calls it cannot use its own executable as a helper.
pub fn entry() -> Option<ExitCode> {
    confine::entry().or_else(selftest::entry)
}

/// A target for commands and files.
#[async_trait]
pub trait Backend: Send + Sync + Debug {
    /// Returns the name in messages: `container:web (via podman, tmux:haft)`.
    fn summary(&self) -> String;

    /// Describes the confinement of commands, in one sentence for users.
    fn confinement(&self) -> String;

    /// Runs a command line or script, of at most [`MAX_COMMAND`] bytes and without NUL, with `sh` to its end and sends
    /// its output to `out` meanwhile. After `timeout` it is stopped, except in a pane, where it continues and
    /// [`CommandEnd::Running`] is returned.
    async fn run(
        &self,
        command: &str,
        timeout: Duration,
        out: Arc<dyn OutputSink>,
        context: &Context<'_>,
    ) -> Result<CommandOutcome, BackendError>;

    /// Reads at most `limit` bytes of a file from `offset` on, unchanged.
    async fn read(
        &self,
        path: &str,
        offset: u64,
        limit: usize,
        context: &Context<'_>,
    ) -> Result<Piece, BackendError>;

    /// Writes `bytes` to a file, which is replaced or created.
    async fn write(&self, path: &str, bytes: Vec<u8>, context: &Context<'_>) -> Result<(), BackendError>;

    /// Reports whether there is a pane, which the next three functions need.
    fn has_pane(&self) -> bool {
        false
    }

    /// Starts a command without waiting for it. Returns its pane.
    async fn dispatch(&self, _command: &str) -> Result<String, BackendError> {
        Err(BackendError::NoPane(self.summary()))
    }

    /// Returns the content of the pane.
    async fn capture(&self, _snapshot: &Snapshot) -> Result<Captured, BackendError> {
        Err(BackendError::NoPane(self.summary()))
    }

    /// Types `literal`, presses `keys`, then Enter if `enter` is set. Returns the pane's id.
    async fn send(
        &self,
        _target: Option<&str>,
        _literal: &str,
        _keys: &[String],
        _enter: bool,
    ) -> Result<String, BackendError> {
        Err(BackendError::NoPane(self.summary()))
    }

    /// Returns notices for the user about the connection, such as a re-created pane.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// Ends everything that still runs on the target, within a few seconds.
    async fn close(&self);
}

/// Limit on the bytes of a command: Linux's limit on an argument, minus room for quotes.
pub const MAX_COMMAND: usize = 100_000;

/// Receives a command's output in chunks, byte for byte.
pub trait OutputSink: Send + Sync {
    /// Receives a chunk. Must not block.
    fn take(&self, stream: Stream, bytes: &[u8]);
}

/// The output streams of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutcome {
    /// The reason why [`Backend::run`] returned.
    pub how: CommandEnd,
    /// Further notices for the model: one sentence each.
    pub notices: Vec<String>,
}

/// Reasons why [`Backend::run`] returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// The command exited, with this exit code in shell convention: 128 + N after signal N.
    Exited(i32),
    /// The command exceeded its time limit and was stopped; the kind of the target, for the message: `local`,
    /// `container`, `ssh`.
    TimedOut(&'static str),
    /// The command exceeded its time limit and continues in this pane.
    Running(String),
    /// The caller cancelled; the command was stopped.
    Cancelled,
    /// The connection was lost, so the end is unknown; with the reason.
    Lost(String),
}

/// The resources of backends on this machine.
#[derive(Clone, Debug)]
pub struct HostContext {
    /// Confines local commands.
    pub confiner: Confiner,
    /// Starts haft's own transport processes (`ssh`, `docker`, `tmux`): supervised, not confined.
    pub transport_confiner: Confiner,
    /// The haft program, which confines a local pane.
    pub haft: PathBuf,
    /// A directory of haft that no tool may access, for sockets.
    pub state: PathBuf,
    /// The rights of local commands.
    pub grant: Grant,
}
