//! How much there may be in a private directory. Who writes there first in a call takes the directory's lock and counts
//! what is there; until the call is over nobody else writes there, in this process or another. What is written is
//! counted before it is, and all of it anew where that would be too much.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::owner::{Homes, Kept, Owner};
use crate::size::size_of;

/// The lock's name, beside the private directory.
const LOCK: &str = "files.lock";

/// How long a call waits for another one that writes.
const WAIT: Duration = Duration::from_secs(5);

/// How often the lock is tried meanwhile.
const POLL: Duration = Duration::from_millis(5);

/// What one call may still write into a private directory.
#[derive(Debug)]
pub struct FileQuota {
    directory: PathBuf,
    lock: File,
    quota: u64,
    /// Bytes left, once the lock was taken.
    left: Mutex<Option<u64>>,
}

/// Why nothing may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaError {
    /// The quota is used up.
    Full,
    /// Another call writes there.
    Busy,
    /// The directory cannot be counted.
    Unusable,
}

impl FileQuota {
    /// Makes the private directory of `owner` where it is not there, and opens its lock.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn open(homes: &Homes, kept: Kept, owner: &Owner, quota: u64) -> io::Result<Self> {
        let folder = homes.create(kept, owner)?;
        let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed();
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        let lock = options.open(folder.join(LOCK))?;
        Ok(Self { directory: homes.files(kept, owner), lock, quota, left: Mutex::default() })
    }

    /// The private directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Takes `bytes` of what is left. Waits for other calls that write, as long as `goes_on` says so and no longer than
    /// some seconds; blocks meanwhile. Opens nothing but directories, to read them.
    pub fn charge(&self, bytes: u64, goes_on: impl Fn() -> bool) -> Result<(), QuotaError> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut room = if let Some(room) = *left {
            room
        } else {
            self.take_lock(goes_on)?;
            self.count()?
        };
        // Something may have been removed, or written again.
        if bytes > room {
            room = self.count()?;
        }
        *left = Some(room.saturating_sub(if bytes <= room { bytes } else { 0 }));
        if bytes <= room { Ok(()) } else { Err(QuotaError::Full) }
    }

    /// What is left by what is there.
    fn count(&self) -> Result<u64, QuotaError> {
        size_of(&self.directory).map(|used| self.quota.saturating_sub(used)).map_err(|_| QuotaError::Unusable)
    }

    /// Gives back what was taken for something that was not made.
    pub fn refund(&self, bytes: u64) {
        if let Some(left) = &mut *self.left.lock().unwrap_or_else(PoisonError::into_inner) {
            *left = left.saturating_add(bytes);
        }
    }

    /// The call is over: others may write.
    pub fn release(&self) {
        if self.left.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            // A lock that cannot be given back goes with its file.
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
