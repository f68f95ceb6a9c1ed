//! Why a session cannot be saved or continued, with its file and a hint.

use std::io;
use std::path::PathBuf;

/// Why a session cannot be saved or continued.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The file cannot be used.
    #[error("cannot {action} the session `{}`: {error}", path.display())]
    File {
        /// The intended action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// Another process uses the session.
    #[error("the session `{0}` is in use by another haft")]
    InUse(String),
    /// The session has reached its maximum size.
    #[error("the session `{id}` has reached {limit} bytes, which is the most there may be in one")]
    Full {
        /// The id.
        id: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// No session has this id.
    #[error("no session begins with `{0}`")]
    Unknown(String),
    /// Several sessions have this prefix.
    #[error("several sessions begin with `{0}`; write more of the id")]
    Ambiguous(String),
    /// There is no session to continue.
    #[error("no session of this program was begun in this folder")]
    None,
    /// A file exists and is not a session.
    #[error("`{}` is not a session: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

impl SessionError {
    /// Returns how to fix the error.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unknown(_) | Self::None => Some("`haft sessions` lists them"),
            Self::InUse(_) => Some("leave the other one, or begin a new session"),
            Self::Full { .. } => Some("begin a new session"),
            Self::File { .. } => Some("`--no-journal` works without keeping the session"),
            Self::Ambiguous(_) | Self::Invalid { .. } => None,
        }
    }

    pub(super) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { action, path, error }
    }
}
