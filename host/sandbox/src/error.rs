//! Errors of targets. Every message contains a remedy; a command that fails on the target is a result, not an
//! error.

use super::process::ProcessError;

/// Reasons why a backend cannot carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// A name that would have another meaning on a command line.
    #[error("invalid {what} `{name}`: {expected}")]
    Name {
        /// The kind of name.
        what: &'static str,
        /// The name, as given.
        name: String,
        /// The expected form.
        expected: &'static str,
    },
    /// A program that the backend needs on this machine is missing.
    #[error("{0}")]
    Missing(String),
    /// tmux is not installed on the target.
    #[error("tmux is not installed on {target}; install it there, or remove `--tmux`")]
    NoTmux {
        /// The target.
        target: String,
    },
    /// Only a pane can run a command without waiting for it.
    #[error(
        "run_shell wait=false requires a tmux-backed target, and {target} has no tmux session; \
         wait for the command, or start haft with `--tmux`"
    )]
    NoPane {
        /// The target.
        target: String,
    },
    /// Another command runs in the pane.
    #[error("{0}")]
    Busy(String),
    /// The target cannot be reached, or the connection was lost.
    #[error("{0}")]
    Unreachable(String),
    /// The target lacks requirements of haft's scripts.
    #[error("{0}")]
    Target(String),
    /// A file cannot be read or written.
    #[error("cannot {action} `{path}` on {target}: {why}")]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The path, as given.
        path: String,
        /// The target.
        target: String,
        /// The reason.
        why: String,
    },
    /// Invalid keys, or an invalid target of the screen.
    #[error("{0}")]
    Screen(String),
    /// The caller cancelled the request.
    #[error("cancelled")]
    Cancelled,
    /// haft's own process on this machine could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Joins the lines of a program's output.
pub(crate) fn joined_lines(words: &str) -> String {
    let lines: Vec<_> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    haft_core::report::plain(&lines.join("; "))
}

/// Returns the error of a command or file whose directory does not exist.
pub(crate) fn no_directory(directory: &str, target: &str) -> BackendError {
    BackendError::Target(format!("cannot enter `{directory}` on {target}; it is `directory` in `[backend]`"))
}
