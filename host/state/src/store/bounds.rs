//! The limits of a key-value store.

use std::time::Duration;

/// Limit on the bytes of a key, and of a bucket's name.
pub const MAX_KEY: usize = 1024;

/// Limit on the bytes of a value: the host holds it in memory during a read or write.
pub const MAX_VALUE: usize = 8 << 20;

/// Limit on the bytes of all values in one read.
pub const MAX_READ: usize = 16 << 20;

/// Time limit for a transaction that waits for other processes. Each transaction takes some milliseconds.
pub const WAIT: Duration = Duration::from_secs(5);

/// Interval between two attempts to lock.
pub(super) const POLL: Duration = Duration::from_millis(2);
