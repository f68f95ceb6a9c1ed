//! A mutex that does not report a panic of another thread. It has no `try_lock` and no condition variable.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Mutual exclusion without poisoning: where a thread panics while it holds the lock, the others go on with the value
/// as that thread left it.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// An unlocked `value`.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Blocks the calling thread until the value is free.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
