//! Saved sessions: all prompts, turns, calls and answers, one JSON line each, in a file that is only appended to.
//! Nothing is guessed: the model is informed of a call that was started and has no end in the file.
//!
//! - **Order:** a turn is in the file before any of its calls runs, a call before its tool runs, its answer before
//!   the model sees it. haft syncs each of these lines to the disk before it continues, so that neither the end of
//!   the process nor that of the machine loses a line.
//! - **Partial lines:** haft never acted on a line without an end. It is cut off when the session is opened again.
//! - **One writer:** a process that continues a session holds a lock on its file.
//! - **No secrets:** lines are redacted like answers and events.
//!
//! The full texts of answers that are too long for a model are stored beside the session
//! ([`Sessions::with_answers`]).

mod answers;
mod file;
mod line;
mod restore;
mod store;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::answers::{Answers, list, make_room};
use self::file::{File, create_private};
use haft_core::secret::Redactor;
use haft_core::sync::Lock;
use haft_core::undo::{self, Keeper, Undone, Which};

pub(super) use self::answers::{Kept, Place};
pub use self::line::{Begun, Ended, Entry, Line, Summarised};
pub use self::restore::{Known, Restored, UNKNOWN, Unanswered};
pub(super) use self::restore::{push_prompt, record};
pub use self::store::{Saved, Sessions};

/// The reason why a session cannot be saved or continued.
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
    #[error("the session `{id}` has reached the limit of {limit} bytes")]
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
    #[error("this folder has no session of this program")]
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
    /// Returns the way to fix the error.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unknown(_) | Self::None => Some("`haft session list` lists them"),
            Self::InUse(_) => Some("end the other haft, or start a new session"),
            Self::Full { .. } => Some("start a new session"),
            Self::File { .. } => Some("`--no-journal` runs without saving the session"),
            Self::Ambiguous(_) | Self::Invalid { .. } => None,
        }
    }

    fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { action, path, error }
    }
}

// Writes the lines of a running session, and stores the changes that its tools make in a separate file.
// Redacts secrets, and stops after a line that could not be written completely. A failure to store changes
// is logged and stops nothing.

/// An open session. Clones append to one file.
#[derive(Clone, Debug)]
pub struct SessionLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: String,
    file: Lock<File>,
    redactor: Redactor,
    answers: Option<Answers>,
    /// The file for the changes of tools.
    changes: Option<PathBuf>,
    /// The stored answers, or `None` for an answer that could not be stored: the model always sees one location.
    kept: Lock<HashMap<Place, Option<Kept>>>,
}

impl SessionLog {
    fn new(
        id: &str,
        file: File,
        redactor: Redactor,
        (answers, changes): (Option<Answers>, Option<PathBuf>),
    ) -> Self {
        let (id, file, kept) = (id.to_owned(), Lock::new(file), Lock::default());
        Self(Arc::new(Inner { id, file, redactor, answers, changes, kept }))
    }

    /// Returns the id of the session.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Returns the store for the changes of tools. If the file cannot be opened, which is logged, nothing is
    /// stored.
    pub fn keeper(&self) -> Keeper {
        let opened = self.0.changes.as_ref().map(|path| keeper(path, &self.0.redactor)).transpose();
        let opened = opened.inspect_err(|error| tracing::warn!("these changes cannot be undone: {error}"));
        opened.ok().flatten().unwrap_or_default()
    }

    /// Reverts changes of tools; `None` if none are stored.
    ///
    /// # Errors
    /// The stored changes cannot be read.
    pub fn undo(&self, which: Which) -> Result<Option<Undone>, SessionError> {
        self.0.changes.as_ref().map_or(Ok(None), |path| undone(path, which))
    }

    pub(crate) fn keeps_answers(&self) -> bool {
        self.0.answers.is_some()
    }

    /// Stores the full text of an answer that the model sees in part.
    pub(crate) fn keep_answer(&self, place: Place, text: &str) -> Option<Kept> {
        let answers = self.0.answers.as_ref()?;
        let mut kept = self.0.kept.lock();
        kept.entry(place).or_insert_with(|| answers.keep(place, text, &self.0.redactor)).clone()
    }

    /// Appends an entry. Entries that others depend on are on the disk on return.
    pub(crate) fn note(&self, entry: Entry) -> Result<(), SessionError> {
        let sync = !matches!(entry, Entry::Turn(_) | Entry::Ended(_) | Entry::Resumed { .. });
        let line = text(Line::now(entry), &self.0.redactor);
        self.0.file.lock().append(&line, sync)
    }
}

/// Returns the redacted text of a line.
fn text(mut line: Line, redactor: &Redactor) -> String {
    // Redaction cannot find secrets in the encoded form.
    if let Entry::Said(prompt) = &mut line.entry {
        let files = std::mem::take(&mut prompt.attachments).into_iter();
        prompt.attachments = files.map(|attachment| redactor.attachment(attachment)).collect();
    }
    // A line of texts, numbers and lists always converts to JSON.
    let mut value = serde_json::to_value(line).unwrap_or_default();
    redactor.clean(&mut value);
    value.to_string()
}

/// The maximum size, in bytes, of the changes of all sessions; the oldest are removed.
const MAX_ALL: u64 = 1 << 30;

/// Opens the file at `path` to store changes from now on.
fn keeper(path: &Path, redactor: &Redactor) -> io::Result<Keeper> {
    let all = path.parent().unwrap_or(path);
    create_private(all)?;
    make_room(list(all)?, usize::MAX, MAX_ALL);
    Keeper::open(path, redactor.clone())
}

/// Reverts the changes stored in the file at `path`, if it exists.
fn undone(path: &Path, which: Which) -> Result<Option<Undone>, SessionError> {
    match undo::undo(path, which) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        undone => undone.map(Some).map_err(SessionError::file("read", path)),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;
    use crate::provider::Prompt;
    use haft_core::call::Attachment;

    /// CL04: a session's file contains no secret, neither in texts nor in attachments.
    #[test]
    fn no_secret_gets_into_a_session() {
        let redactor = Redactor::default();
        redactor.add([&SecretString::from("sk-4711-0815")]);
        let attachments = vec![Attachment::new("text/plain", b"sk-4711-0815".into())];
        let said = Prompt { text: "it is sk-4711-0815".into(), attachments };
        let line = text(Line::now(Entry::Said(said)), &redactor);
        assert!(line.contains("it is ***") && !line.contains("4711"), "{line}");
        let attachments = vec![Attachment::new("text/plain", b"***".into())];
        let clean = Prompt { text: "it is ***".into(), attachments };
        assert_eq!(serde_json::from_str::<Line>(&line).unwrap().entry, Entry::Said(clean));
    }
}
