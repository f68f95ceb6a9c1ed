//! Errors of targets. Every message says what to do about it; a command that fails there is no error but an answer.

use super::process::ProcessError;

/// Why a backend could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// A name that would be taken for something else on a command line.
    #[error("invalid {what} `{name}`: {expected}")]
    Name {
        /// What it names.
        what: &'static str,
        /// As it was given.
        name: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A program of this machine that the backend needs is missing.
    #[error("{0}")]
    Missing(String),
    /// There is no tmux on the target.
    #[error("tmux is not installed on {target}; install it there, or leave `--tmux` away")]
    NoTmux {
        /// The target.
        target: String,
    },
    /// A command can only run without being waited for in a pane.
    #[error(
        "run_shell wait=false requires a tmux-backed target, and {target} has no tmux session; \
         wait for the command, or start haft with `--tmux`"
    )]
    NoPane {
        /// The target.
        target: String,
    },
    /// Something else runs in the pane.
    #[error("{0}")]
    Busy(String),
    /// The target cannot be reached, or not any more.
    #[error("{0}")]
    Unreachable(String),
    /// The target has not got what haft's own part needs.
    #[error("{0}")]
    Target(String),
    /// The file cannot be read or written.
    #[error("cannot {action} `{path}` on {target}: {why}")]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// As it was given.
        path: String,
        /// The target.
        target: String,
        /// Why not.
        why: String,
    },
    /// Keys or a target for the screen that make no sense.
    #[error("{0}")]
    Screen(String),
    /// The caller cancelled before there was an answer.
    #[error("cancelled")]
    Cancelled,
    /// haft's own part could not be started here.
    #[error(transparent)]
    Process(#[from] ProcessError),
}
