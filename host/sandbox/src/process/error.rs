//! Why a child could not be run.

use std::io;
use std::path::PathBuf;

use crate::confine::ConfineError;

/// Why a job could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The grant has no workspace that may be read, so there is nowhere to run.
    #[error("no directory to run in: the grant names no workspace that may be read")]
    NoWorkspace,
    /// The workspace cannot be opened.
    #[error("cannot open the workspace `{}`: {source}", path.display())]
    Workspace {
        /// The workspace.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The child cannot be confined as it has to be.
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
    /// The system refused what watching a child takes.
    #[error("cannot {action}: {source}")]
    Watch {
        /// What was being done.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// The error of something that watching a child takes.
pub(crate) fn watch(action: &'static str) -> impl Fn(io::Error) -> ProcessError {
    move |source| ProcessError::Watch { action, source }
}
