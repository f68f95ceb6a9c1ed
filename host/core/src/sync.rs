//! A mutex without poisoning, and a value that is initialised once by a function that may fail.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// A mutex without poisoning: after a panic of a thread that holds the lock, other threads continue with the
/// value in its last state.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Creates an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Blocks the calling thread until the lock is free.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value, unless another thread holds the lock.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(value) => Some(value),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value that is initialised at its first use. After a failure, the next use tries again.
#[derive(Debug)]
pub struct TryOnceLock<T> {
    value: OnceLock<T>,
    /// Held during initialisation.
    making: Lock<()>,
}

impl<T> TryOnceLock<T> {
    /// Creates an uninitialised cell.
    pub const fn new() -> Self {
        Self { value: OnceLock::new(), making: Lock::new(()) }
    }

    /// Returns the value, initialised by `make` if there is none. Other threads wait meanwhile.
    ///
    /// # Errors
    /// The error of `make`.
    pub fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let _making = self.making.lock();
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let value = make()?;
        Ok(self.value.get_or_init(|| value))
    }

    /// Removes and returns the value.
    pub fn take(&mut self) -> Option<T> {
        self.value.take()
    }
}

impl<T> Default for TryOnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_not_kept_and_a_value_is() {
        let mut once = TryOnceLock::new();
        assert_eq!(once.get_or_try_init(|| Err::<i32, _>("not now")), Err("not now"));
        assert_eq!(once.get_or_try_init(|| Ok::<_, &str>(1)), Ok(&1));
        assert_eq!(once.get_or_try_init(|| Err("never asked")), Ok(&1));
        assert_eq!((once.take(), once.take()), (Some(1), None));
    }
}
