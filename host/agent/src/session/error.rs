//! Why a session cannot be kept or gone on with, with the file and the way out.

use std::io;
use std::path::PathBuf;

/// Why a session cannot be kept or gone on with.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Its file cannot be used.
    #[error("cannot {action} the session `{}`: {error}", path.display())]
    File {
        /// What was to be done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Another process goes on with it.
    #[error("the session `{0}` is in use by another haft")]
    InUse(String),
    /// It has as much in it as one may have.
    #[error("the session `{id}` has reached {limit} bytes, which is the most there may be in one")]
    Full {
        /// Its id.
        id: String,
        /// Bytes.
        limit: u64,
    },
    /// There is none of this id.
    #[error("no session begins with `{0}`")]
    Unknown(String),
    /// There are several.
    #[error("several sessions begin with `{0}`; write more of the id")]
    Ambiguous(String),
    /// There is none to go on with.
    #[error("no session of this program was begun in this folder")]
    None,
    /// A file is there, and it does not begin as a session does.
    #[error("`{}` is not a session: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl SessionError {
    /// What to do about it.
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
