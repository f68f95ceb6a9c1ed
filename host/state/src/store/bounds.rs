//! The bounds of a key-value store.

use std::time::Duration;

/// Bytes of a key, and of the name of a bucket.
pub const MAX_KEY: usize = 1024;

/// Bytes of a value: the host holds it in memory while it is read or written.
pub const MAX_VALUE: usize = 8 << 20;

/// Bytes of all values that are read at once.
pub const MAX_READ: usize = 16 << 20;

/// How long a transaction waits for those of other processes. Each takes some milliseconds.
pub const WAIT: Duration = Duration::from_secs(5);

/// How often a lock is tried meanwhile.
pub(super) const POLL: Duration = Duration::from_millis(2);
