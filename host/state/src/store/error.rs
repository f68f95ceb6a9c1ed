//! The limits and the errors of a key-value store. The texts of errors are sent to guests: they contain no
//! path of this machine.

use std::time::Duration;

/// Reasons why a transaction failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The key or the bucket is longer than [`MAX_KEY`].
    #[error("a key and the name of a bucket have at most {MAX_KEY} bytes")]
    Key,
    /// The value is longer than [`MAX_VALUE`].
    #[error("a value has at most {} MiB", MAX_VALUE >> 20)]
    Value,
    /// One read exceeds [`MAX_READ`].
    #[error("the result has more than {} MiB: request fewer keys at once", MAX_READ >> 20)]
    Read,
    /// The change exceeds the quota.
    #[error("quota exceeded: {needed} bytes needed, `state` allows {quota}")]
    Full {
        /// The bytes after the change.
        needed: u64,
        /// The quota in bytes.
        quota: u64,
    },
    /// Another call held the store for longer than the time limit.
    #[error("busy: another call has used the state of this plugin for {} s", .0.as_secs())]
    Busy(Duration),
    /// The value to increment is not a number.
    #[error("the value is not a whole number from 0 to 18446744073709551615")]
    NotANumber,
    /// The sum exceeds 64 bits.
    #[error("the sum is larger than 18446744073709551615")]
    Overflow,
    /// The disk failed, or the file is damaged.
    #[error("the state of this plugin cannot be used: {0}")]
    Unusable(String),
}

impl StoreError {
    /// Converts an error of the engine: logs the details, and keeps only the kind for guests.
    pub(super) fn engine(error: impl Into<redb::Error>) -> Self {
        let error = error.into();
        if matches!(&error, redb::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut) {
            return Self::Busy(WAIT);
        }
        tracing::warn!(%error, "the state of a plugin cannot be used");
        Self::Unusable(match error {
            redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) => "it is damaged".to_owned(),
            redb::Error::Io(error) => error.kind().to_string(),
            _ => "its storage failed".to_owned(),
        })
    }
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        Self::engine(redb::Error::Io(error))
    }
}

/// Limit on the bytes of a key, and of a bucket's name.
pub const MAX_KEY: usize = 1024;

/// Limit on the bytes of a value: the host holds it in memory during a read or write.
pub const MAX_VALUE: usize = 8 << 20;

/// Limit on the bytes of all values in one read.
pub const MAX_READ: usize = 16 << 20;

/// Time limit for a transaction that waits for other processes, and for a call that waits for another one that writes
/// files. Each transaction takes some milliseconds.
pub const WAIT: Duration = Duration::from_secs(5);

/// Interval between two attempts to lock.
pub(super) const POLL: Duration = Duration::from_millis(2);
