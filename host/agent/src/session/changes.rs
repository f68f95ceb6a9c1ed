//! Stores the changes that tools made in a session, in a separate file. A failure to store them is logged and stops
//! nothing.

use std::io;
use std::path::{Path, PathBuf};

use super::SessionError;
use super::answers::{list, make_room};
use super::file::create_private;
use haft_core::secret::Redactor;
use haft_core::undo::{self, Keeper, Undone, Which};

/// The maximum size, in bytes, of the changes of all sessions; the oldest are removed.
const MAX_ALL: u64 = 1 << 30;

/// Returns the file of the session `id` below `all`.
pub(super) fn of(all: &Path, id: &str) -> PathBuf {
    all.join(format!("{id}.jsonl"))
}

/// Opens the file at `path` to store changes from now on.
pub(super) fn keeper(path: &Path, redactor: &Redactor) -> io::Result<Keeper> {
    let all = path.parent().unwrap_or(path);
    create_private(all)?;
    make_room(list(all)?, usize::MAX, MAX_ALL);
    Keeper::open(path, redactor.clone())
}

/// Reverts the changes stored in the file at `path`, if it exists.
pub(super) fn undone(path: &Path, which: Which) -> Result<Option<Undone>, SessionError> {
    match undo::undo(path, which) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        undone => undone.map(Some).map_err(SessionError::file("read", path)),
    }
}
