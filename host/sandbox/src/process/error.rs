//! Errors of starting and running a child.

use std::io;
use std::path::PathBuf;

use crate::confine::ConfineError;

/// Reasons why a program could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The grant has no workspace, so there is no directory to run in.
    #[error("no directory to run in: the grant names no workspace")]
    NoWorkspace,
    /// The workspace cannot be opened.
    #[error("cannot open the workspace `{}`: {source}", path.display())]
    Workspace {
        /// The workspace.
        path: PathBuf,
        /// The error of opening it.
        source: io::Error,
    },
    /// The child cannot be confined as required.
    #[error(transparent)]
    Confine(#[from] ConfineError),
    /// The program cannot be started.
    #[error("{0}")]
    Start(String),
    /// A file that is closed to the child was replaced: the child could have changed or read the new one.
    #[error("ended, since `{}`, which is closed to it, was replaced by another file while it ran", path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// A system call for the supervision of the child failed.
    #[error("cannot {action}: {source}")]
    Watch {
        /// The action.
        action: &'static str,
        /// The error of the action.
        source: io::Error,
    },
}

/// Returns a conversion of errors in the supervision of a child.
pub(crate) fn watch(action: &'static str) -> impl Fn(io::Error) -> ProcessError {
    move |source| ProcessError::Watch { action, source }
}
