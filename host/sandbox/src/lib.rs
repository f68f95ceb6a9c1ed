//! Where a command runs, and every process of haft. A [`Backend`] runs commands and moves files: on
//! this machine, in a container or on another host, in a pane of tmux or not. Below it, [`process`]
//! runs one child to its end, [`process::service`] keeps one running, and [`confine`] holds both to their
//! grant; nothing else in the program starts a child. It refuses to know what the command is for.
//!
//! # The parts of a backend
//! - a **transport** starts `sh` on the target: `local`, `container`, `ssh`;
//! - a **remote script** is handed to that shell, read while it runs, and ends with a line that begins with an
//!   unguessable nonce;
//! - `plain` runs a command in a new shell of the target, `pane` in a pane that a person can watch.

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

pub use self::backend::connect::{BACKENDS, connect};
pub use self::backend::files::Piece;
pub use self::backend::pane::{Captured, Screen, Snapshot};
pub use self::backend::target::{BackendConfig, Engine, Place};
use self::confine::Confiner;
pub use self::error::BackendError;
pub use self::process::{attached, service, start};
use haft_core::grant::Grant;
use haft_core::tool::Context;

/// Runs what this process was started as, if that is a part of the sandbox: the helper, or the one who tries to get out
/// of it. To be asked first thing in `main`, before there is a second thread; `None` where it is an ordinary start. A
/// program that never asks starts no helper of its own kind.
pub fn entry() -> Option<ExitCode> {
    confine::entry().or_else(selftest::entry)
}

/// Where commands run and files are.
#[async_trait]
pub trait Backend: Send + Sync + Debug {
    /// What it is called in messages: `container:web (via podman, tmux:haft)`.
    fn summary(&self) -> String;

    /// What holds commands there, in one sentence for people.
    fn confinement(&self) -> String;

    /// Runs a command to its end, telling `out` what it writes while it does. One that is out of
    /// time is stopped, except in a pane, where it goes on and [`CommandEnd::Running`] says so.
    async fn run(
        &self,
        task: &Task,
        out: Arc<dyn OutputSink>,
        context: &Context<'_>,
    ) -> Result<CommandOutcome, BackendError>;

    /// Starts a command without waiting for it. Returns the pane that it runs in.
    async fn dispatch(&self, command: &str, context: &Context<'_>) -> Result<String, BackendError>;

    /// At most `limit` bytes of a file from `offset` on, exactly as they lie there.
    async fn read(
        &self,
        path: &str,
        offset: u64,
        limit: usize,
        context: &Context<'_>,
    ) -> Result<Piece, BackendError>;

    /// Puts `bytes` in the place of a file, or makes it.
    async fn write(&self, path: &str, bytes: Vec<u8>, context: &Context<'_>) -> Result<(), BackendError>;

    /// The pane that can be looked at and typed into, where there is one.
    fn screen(&self) -> Option<&dyn Screen> {
        None
    }

    /// Notices for the user about how it was connected, such as that a pane had to be made again.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// Ends what is still under way on the target, within a few seconds.
    async fn close(&self);
}

/// A command and how long it may take.
#[derive(Clone, Debug)]
pub struct Task {
    /// The command line or script, of at most [`MAX_COMMAND`] bytes and without NUL; `sh` runs it.
    pub command: String,
    /// When it is stopped, or left alone in its pane.
    pub timeout: Duration,
}

/// Bytes of a command: what an argument may have on Linux, less room for quotes.
pub const MAX_COMMAND: usize = 100_000;

/// Receives what a command writes, piece by piece and byte for byte.
pub trait OutputSink: Send + Sync {
    /// Takes in a piece. Must not block.
    fn take(&self, stream: Stream, bytes: &[u8]);
}

/// The two streams of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutcome {
    /// Why [`Backend::run`] returned.
    pub how: CommandEnd,
    /// What a model should know besides: one sentence each.
    pub notices: Vec<String>,
}

/// Why [`Backend::run`] returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// The command ended, with this exit code as a shell has it: 128 + N after signal N.
    Exited(i32),
    /// Its time is over; it was stopped. What it ran on, for the message: `local`, `container`, `ssh`.
    TimedOut(&'static str),
    /// Its time is over, and it still runs in this pane.
    Running(String),
    /// The caller cancelled; it was stopped.
    Cancelled,
    /// How it ended is unknown, since the connection to it was lost; with the reason.
    Lost(String),
}

/// What backends stand on, on this machine.
#[derive(Clone, Debug)]
pub struct HostContext {
    /// What holds local commands to their grant.
    pub confiner: Confiner,
    /// What starts haft's own transport processes (`ssh`, `docker`, `tmux`): watched, not confined.
    pub transport_confiner: Confiner,
    /// The haft program, which a local pane is confined by.
    pub haft: PathBuf,
    /// A directory of haft's own that no tool may touch: sockets are there.
    pub state: PathBuf,
    /// What local commands may do.
    pub grant: Grant,
}
