//! The two programs that are installed, and the folder beside them where new ones arrive. It refuses a place that
//! another installer looks after, one that cannot be written, and a second update at the same time.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use tempfile::TempDir;

use super::replace::Pair;
use super::{Owner, ReleaseError};

/// What names of the folders begin with that new programs arrive in.
const ARRIVING: &str = ".haft-update.";

/// Programs that may be replaced, for as long as this is held.
#[derive(Debug)]
pub struct Installation {
    pair: Pair,
    /// On the same file system, so that programs can be renamed from it.
    arriving: TempDir,
    /// The folder of the programs, locked where its file system can do that.
    _held: File,
}

impl Installation {
    /// The programs of which `program` is one, by its real path.
    pub fn open(program: &Path) -> Result<Self, ReleaseError> {
        let program = program.canonicalize().map_err(|error| ReleaseError::Nowhere(error.to_string()))?;
        if let Some(owner) = Owner::of(&program) {
            return Err(ReleaseError::Owned(owner));
        }
        let folder = program.parent().ok_or_else(|| ReleaseError::Nowhere("it is no file".to_owned()))?;
        let held = File::open(folder).map_err(ReleaseError::io("open", folder))?;
        match held.try_lock() {
            Ok(()) => clear(folder),
            Err(TryLockError::WouldBlock) => return Err(ReleaseError::Busy(folder.to_owned())),
            // File systems of networks that lock no folders. Each update has a folder of its own there too.
            Err(TryLockError::Error(_)) => {}
        }
        let arriving = tempfile::Builder::new().prefix(ARRIVING).tempdir_in(folder);
        let arriving =
            arriving.map_err(|source| ReleaseError::Unwritable { folder: folder.to_owned(), source })?;
        Ok(Self { pair: Pair::beside(&program), arriving, _held: held })
    }

    pub(super) fn arriving(&self) -> &Path {
        self.arriving.path()
    }

    pub(super) fn pair(&self) -> &Pair {
        &self.pair
    }
}

/// Removes what updates left that were killed. What cannot be removed harms nobody.
fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && entry.file_name().to_string_lossy().starts_with(ARRIVING) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
