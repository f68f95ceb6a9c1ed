//! What tools changed in a session, in a file of its own. What cannot be kept stops nothing, and is logged.

use std::io;
use std::path::{Path, PathBuf};

use super::SessionError;
use super::answers::{list, make_room};
use super::file::create_private;
use haft_core::secret::Redactor;
use haft_core::undo::{self, Keeper, Undone, Which};

/// Bytes of what is kept of all sessions; of more the oldest go.
const MAX_ALL: u64 = 1 << 30;

/// The file of the session `id` below `all`.
pub(super) fn of(all: &Path, id: &str) -> PathBuf {
    all.join(format!("{id}.jsonl"))
}

/// Keeps what is changed from now on in the file at `path`.
pub(super) fn keeper(path: &Path, redactor: &Redactor) -> io::Result<Keeper> {
    let all = path.parent().unwrap_or(path);
    create_private(all)?;
    make_room(list(all)?, usize::MAX, MAX_ALL);
    Keeper::open(path, redactor.clone())
}

/// Puts back what is kept in the file at `path`, if it is there.
pub(super) fn undone(path: &Path, which: Which) -> Result<Option<Undone>, SessionError> {
    match undo::undo(path, which) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        undone => undone.map(Some).map_err(SessionError::file("read", path)),
    }
}
