//! Errors of targets. Every message contains a remedy; a command that fails on the target is a result, not an
//! error.

use super::process::ProcessError;

/// Reasons why a backend cannot carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// tmux is not installed on this target.
    #[error("tmux is not installed on {0}; install it there, or remove `--tmux`")]
    NoTmux(String),
    /// Only a pane can run a command without waiting for it, and this target has none.
    #[error(
        "run_shell wait=false requires a tmux-backed target, and {0} has no tmux session; \
         wait for the command, or start haft with `--tmux`"
    )]
    NoPane(String),
    /// Another command runs in the pane.
    #[error("{0}")]
    Busy(String),
    /// The target cannot be reached, or the connection was lost.
    #[error("{0}")]
    Unreachable(String),
    /// The request is invalid, something that it needs is missing here or on the target, or the target refused it.
    #[error("{0}")]
    Target(String),
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

/// Checks a name of at most `limit` letters, digits and `others`, a letter or digit first, so that it is not an option
/// and has no meaning to a program.
pub(crate) fn check_name(
    (what, name): (&str, &str),
    (others, limit): (&[char], usize),
    expected: &str,
) -> Result<(), BackendError> {
    let is_first = |c: char| c.is_ascii_alphanumeric();
    let is_name = |c: char| is_first(c) || others.contains(&c);
    if name.starts_with(is_first) && name.chars().all(is_name) && name.len() <= limit {
        return Ok(());
    }
    Err(invalid_name(what, name, expected))
}

pub(crate) fn invalid_name(what: &str, name: &str, expected: &str) -> BackendError {
    BackendError::Target(format!("invalid {what} `{}`: {expected}", haft_core::report::plain(name)))
}
