//! Removes content that no program refers to. Errs on the safe side: stops at an invalid lock file, and keeps
//! young content.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;

use super::{INCOMING, PROGRAMS, Store, StoreError};
use crate::Digest;
use crate::listing::{TreeError, io_error};
use crate::lock::{Lock, LockError};

/// Content younger than this stays: on a file system without locks, another process may be about to refer to
/// it.
pub(super) const YOUNG: Duration = Duration::from_mins(10);

/// Time limit for running installations.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of a sweep, or its preview.
#[derive(Debug, Default)]
pub struct Swept {
    /// Unreferenced content.
    pub removed: Vec<SweptEntry>,
    /// Bytes of the remains of unfinished installations.
    pub remains: u64,
    /// Number of referenced entries.
    pub used: usize,
    /// Number of unreferenced entries that are too young to be removed.
    pub young: usize,
}

/// Unreferenced content.
#[derive(Debug)]
pub struct SweptEntry {
    /// The digest of the content.
    pub digest: Digest,
    /// The number of bytes of the files.
    pub size: u64,
}

/// Reasons why nothing was removed.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The store cannot be read, or is in use.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A lock file is invalid, so its references are unknown.
    #[error("nothing was removed: the references of `{}` are not known: {error}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The error of the lock file.
        error: Box<LockError>,
    },
}

impl From<TreeError> for SweepError {
    fn from(error: TreeError) -> Self {
        Self::Store(error.into())
    }
}

impl Store {
    /// Removes content that no known program refers to; with `dry_run` only reports it.
    pub fn sweep(&self, dry_run: bool) -> Result<Swept, SweepError> {
        let mut swept = Swept::default();
        if !self.root.is_dir() {
            return Ok(swept);
        }
        let _alone = self.lock(FlockOperation::NonBlockingLockExclusive, LOCK_TIMEOUT)?;
        let used = self.used(dry_run)?;
        // No installation is running, so all remains can go; their names are needed for the removals below.
        swept.remains = self.clear_remains(dry_run)?;
        for (place, digest) in self.entries()? {
            if used.contains(&digest) {
                swept.used += 1;
            } else if is_young(&place) {
                swept.young += 1;
            } else {
                swept.removed.push(SweptEntry { digest, size: size(&place) });
                self.remove(&place, dry_run)?;
            }
        }
        Ok(swept)
    }

    /// Removes the remains of unfinished installations; returns their bytes.
    pub(super) fn clear_remains(&self, dry_run: bool) -> Result<u64, TreeError> {
        let mut bytes = 0;
        for entry in fs::read_dir(&self.root).map_err(io_error("list", &self.root))? {
            let entry = entry.map_err(io_error("list", &self.root))?;
            if !entry.file_name().as_bytes().starts_with(INCOMING.as_bytes()) {
                continue;
            }
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            bytes +=
                if is_folder { size(&path) } else { entry.metadata().map_or(0, |metadata| metadata.len()) };
            if !dry_run {
                let removed = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(io_error("remove", &path))?;
            }
        }
        Ok(bytes)
    }

    /// Returns all content that known programs refer to. Forgets programs that no longer exist.
    fn used(&self, dry_run: bool) -> Result<BTreeSet<Digest>, SweepError> {
        let mut used = BTreeSet::new();
        let folder = self.root.join(PROGRAMS);
        let Ok(entries) = fs::read_dir(&folder) else { return Ok(used) };
        for entry in entries {
            let file = entry.map_err(io_error("list", &folder))?.path();
            let path = fs::read(&file).map_err(io_error("read", &file))?;
            let path = PathBuf::from(OsStr::from_bytes(&path));
            match Lock::load(&path) {
                Ok(Some(lock)) => used.extend(lock.pins.into_iter().map(|pin| pin.kept)),
                // A program on an unmounted disk counts as removed; its content can be fetched again.
                Ok(None) if dry_run => {}
                Ok(None) => fs::remove_file(&file).map_err(io_error("remove", &file))?,
                Err(error) => return Err(SweepError::Lock { path, error: Box::new(error) }),
            }
        }
        Ok(used)
    }

    fn entries(&self) -> Result<Vec<(PathBuf, Digest)>, TreeError> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(io_error("list", &self.root))? {
            let path = entry.map_err(io_error("list", &self.root))?.path();
            let digest = path.file_name().and_then(OsStr::to_str).and_then(|name| name.parse().ok());
            entries.extend(digest.map(|digest| (path, digest)));
        }
        entries.sort();
        Ok(entries)
    }

    /// Renames an entry before it is removed, so that an entry is never partial.
    fn remove(&self, place: &Path, dry_run: bool) -> Result<(), TreeError> {
        if dry_run {
            return Ok(());
        }
        let mut name = std::ffi::OsString::from(INCOMING);
        name.push(place.file_name().unwrap_or_default());
        let away = self.root.join(name);
        fs::rename(place, &away).map_err(io_error("move away", place))?;
        fs::remove_dir_all(&away).map_err(io_error("remove", &away))
    }
}

fn is_young(place: &Path) -> bool {
    let modified = fs::metadata(place).and_then(|metadata| metadata.modified());
    // A time in the future does not count as young.
    modified.is_ok_and(|modified| SystemTime::now().duration_since(modified).is_ok_and(|age| age < YOUNG))
}

/// Returns the bytes of the files below `place`.
fn size(place: &Path) -> u64 {
    let (mut size, mut folders) = (0, vec![place.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => size += metadata.len(),
                Err(_) => {}
            }
        }
    }
    size
}
