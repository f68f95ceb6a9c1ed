//! Saved sessions: all prompts, turns, calls and answers, one JSON line each, in a file that is only appended to.
//! Nothing is guessed: the model is informed of a call that was started and has no end in the file.
//!
//! - **Order:** a turn is in the file before any of its calls runs, a call before its tool runs, its answer before
//!   the model sees it. Each of these lines is synced to the disk before haft goes on, so that neither the end of
//!   the process nor that of the machine loses one.
//! - **Partial lines:** haft never acted on a line without an end. It is cut off when the session is opened again.
//! - **One writer:** a process that continues a session holds a lock on its file.
//! - **No secrets:** lines are redacted like answers and events.
//!
//! The full texts of answers that are too long for a model are stored beside it ([`Sessions::with_answers`]).

mod answers;
mod file;
mod line;
mod log;
mod restore;
mod store;

use std::io;
use std::path::PathBuf;

pub(super) use self::answers::{Kept, Place};
pub use self::line::{Begun, Ended, Entry, Line, Summarised, Turned};
pub use self::log::SessionLog;
pub use self::restore::{Known, Restored, Summary, UNKNOWN, Unanswered};
pub(super) use self::restore::{push_prompt, record};
pub use self::store::{Saved, Sessions};

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

    fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { action, path, error }
    }
}
