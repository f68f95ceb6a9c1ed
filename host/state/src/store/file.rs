//! The file of a store: opened below the plugin's folder without following a link, and never larger than its quota
//! accounts for, whatever the engine makes of free pages.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use rustix::fs::OFlags;

use super::bounds::{POLL, WAIT};
use super::error::StoreError;
use crate::owner::is_linked;

/// The file's name.
const NAME: &str = "entries.redb";

/// How much larger than its quota the file may be: a value takes the next power of two in pages, what is changed is
/// written beside what it was, and what it was is free one transaction later.
const OVERHEAD: u64 = 8;

/// Bytes that an empty file may have, and one with little in it.
const LEAST: u64 = 4 << 20;

/// The file as the engine uses it.
#[derive(Debug)]
pub(super) struct Backend {
    file: FileBackend,
    /// Asked whether it was removed.
    same: File,
    most: u64,
}

/// Opens the file in `folder`, made where it is not there and `create` says so; a second handle says whether it is
/// still there.
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

/// Tries until there is a lock, and no longer than a transaction waits: the engine's own wait has no end.
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
        // What was removed meanwhile keeps nothing: it must not be acknowledged.
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
