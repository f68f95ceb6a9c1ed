//! The size limit of a private directory. The first write of a call locks the directory and measures it; until
//! the call ends, no other call in any process can write there. Every write is charged before it is made, and
//! the directory is measured again if the charge exceeds the rest.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::owner::{Homes, Kept, Owner, size_of};
use crate::store::error::WAIT;

/// The name of the lock file, beside the private directory.
const LOCK: &str = "files.lock";

/// Interval between two attempts to lock.
const POLL: Duration = Duration::from_millis(5);

/// The bytes that one call may still write to a private directory.
#[derive(Debug)]
pub struct FileQuota {
    directory: PathBuf,
    lock: File,
    quota: u64,
    /// The bytes left, once the lock is held.
    left: Mutex<Option<u64>>,
}

/// Reasons why a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaError {
    /// The quota is exhausted.
    Full,
    /// Another call is writing.
    Busy,
    /// The directory cannot be measured.
    Unusable,
}

impl FileQuota {
    /// Creates the private directory of `owner`, if it is missing, and opens its lock file.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn open(homes: &Homes, kept: Kept, owner: &Owner, quota: u64) -> io::Result<Self> {
        let folder = homes.create(kept, owner)?;
        let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed();
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        let lock = options.open(folder.join(LOCK))?;
        Ok(Self { directory: homes.files(kept, owner), lock, quota, left: Mutex::default() })
    }

    /// Returns the private directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Charges `bytes`. Blocks while another call is writing, as long as `goes_on` returns true and for at most
    /// 5 seconds. Opens only directories, for reading.
    pub fn charge(&self, bytes: u64, goes_on: impl Fn() -> bool) -> Result<(), QuotaError> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut room = if let Some(room) = *left {
            room
        } else {
            self.take_lock(goes_on)?;
            self.count()?
        };
        // Files may have been removed or overwritten since the last measurement.
        if bytes > room {
            room = self.count()?;
        }
        *left = Some(room.saturating_sub(if bytes <= room { bytes } else { 0 }));
        if bytes <= room { Ok(()) } else { Err(QuotaError::Full) }
    }

    /// Measures the directory; returns the bytes left.
    fn count(&self) -> Result<u64, QuotaError> {
        size_of(&self.directory).map(|used| self.quota.saturating_sub(used)).map_err(|_| QuotaError::Unusable)
    }

    /// Gives back charged bytes that were not written.
    pub fn refund(&self, bytes: u64) {
        if let Some(left) = &mut *self.left.lock().unwrap_or_else(PoisonError::into_inner) {
            *left = left.saturating_add(bytes);
        }
    }

    /// Ends the call: other calls may write.
    pub fn release(&self) {
        if self.left.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            // If the unlock fails, the lock ends when the file is closed.
            let _ = flock(&self.lock, FlockOperation::Unlock);
        }
    }

    fn take_lock(&self, goes_on: impl Fn() -> bool) -> Result<(), QuotaError> {
        let since = Instant::now();
        loop {
            match flock(&self.lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK | Errno::INTR) if since.elapsed() < WAIT && goes_on() => {
                    std::thread::sleep(POLL);
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => return Err(QuotaError::Busy),
                Err(_) => return Err(QuotaError::Unusable),
            }
        }
    }
}

impl Drop for FileQuota {
    fn drop(&mut self) {
        self.release();
    }
}

/// The bytes that a plugin stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys and values, as the quota counts them.
    pub entries: u64,
    /// Files in the private directory.
    pub files: u64,
    /// Files in the cache directory.
    pub cache: u64,
}

impl Homes {
    /// Returns the bytes that a plugin stores. Unreadable data counts as 0.
    pub fn usage(&self, owner: &Owner) -> Usage {
        Usage {
            entries: self.store(owner, 0).used().unwrap_or_default(),
            files: size_of(&self.files(Kept::State, owner)).unwrap_or_default(),
            cache: size_of(&self.files(Kept::Cache, owner)).unwrap_or_default(),
        }
    }

    /// Returns the bytes of the plugin or package `name` of the program.toml at `program`, for all plugins of a
    /// package.
    pub fn usage_of(&self, program: &Path, name: &str) -> Usage {
        self.owners(program, name).iter().fold(Usage::default(), |sum, owner| {
            let Usage { entries, files, cache } = self.usage(owner);
            Usage { entries: sum.entries + entries, files: sum.files + files, cache: sum.cache + cache }
        })
    }
}
