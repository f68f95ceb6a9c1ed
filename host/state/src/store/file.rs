//! The file of a store: opened below the plugin's folder without following links, and limited in proportion to
//! its quota, however the engine uses free pages.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use rustix::fs::OFlags;

use super::error::{POLL, StoreError, WAIT};
use crate::owner::is_linked;

/// The file's name.
const NAME: &str = "entries.redb";

/// The file's limit as a multiple of the quota: a value takes the next power of two in pages, a changed page is
/// written beside the old one, and the old one is free one transaction later.
const OVERHEAD: u64 = 8;

/// The minimal limit in bytes, for an empty or small store.
const LEAST: u64 = 4 << 20;

/// The storage backend of the engine.
#[derive(Debug)]
pub(super) struct Backend {
    file: FileBackend,
    /// A handle to check whether the file was removed.
    same: File,
    most: u64,
}

/// Opens the file in `folder`, which is created if it is missing and `create` is set. Returns a second handle
/// to check whether the file was removed.
pub(super) fn open(folder: &Path, create: bool, quota: u64) -> Result<Option<(Backend, File)>, StoreError> {
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed();
    let opened = File::options()
        .read(true)
        .write(true)
        .create(create)
        .mode(0o600)
        .custom_flags(flags)
        .open(folder.join(NAME));
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !create => return Ok(None),
        opened => opened?,
    };
    let (same, other, length) = (file.try_clone()?, file.try_clone()?, file.metadata()?.len());
    let most = quota.saturating_mul(OVERHEAD).max(LEAST).max(length);
    let file = FileBackend::new(file).map_err(StoreError::engine)?;
    Ok(Some((Backend { file, same, most }, other)))
}

/// Retries a lock up to the time limit of a transaction: the engine's own wait is unlimited.
fn waited(attempt: impl Fn() -> Result<bool, BackendError>) -> Result<(), BackendError> {
    let since = Instant::now();
    while !attempt()? {
        if since.elapsed() >= WAIT {
            return Err(BackendError::Io(io::ErrorKind::TimedOut.into()));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if length > self.most {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        self.file.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        // A removed file keeps nothing, so the change must not be acknowledged.
        if !is_linked(&self.same) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        waited(|| self.file.try_lock_range(start, end))
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        waited(|| self.file.try_lock_shared_range(start, end))
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
