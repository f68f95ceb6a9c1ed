//! A few instances of a plugin in use, made ahead of the calls that will use them. Each is used
//! once, for a call with exactly the rights it was made with, and thrown away when none comes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::instance::Instance;
use crate::grant::Grant;

/// How long an instance waits for a call. Each holds a few hundred KiB.
pub(super) const IDLE: Duration = Duration::from_secs(10);

/// Instances waiting for calls.
pub(super) struct Stock {
    waiting: Mutex<Vec<Instance>>,
    limit: usize,
}

impl Stock {
    /// A stock of at most `limit` instances.
    pub(super) fn new(limit: usize) -> Self {
        Self { waiting: Mutex::default(), limit }
    }

    /// Takes an instance with exactly these rights.
    pub(super) fn take(&self, grant: &Grant) -> Option<Instance> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |instance: &Instance| instance.grant() == grant && instance.made.elapsed() < IDLE;
        waiting.iter().position(fits).map(|index| waiting.swap_remove(index))
    }

    /// Whether one more instance would be kept.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).len() < self.limit
    }

    /// Keeps an instance, or drops it when there are enough.
    pub(super) fn put(&self, instance: Instance) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < self.limit {
            waiting.push(instance);
        }
    }

    /// Drops what has waited too long.
    pub(super) fn expire(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let old: Vec<Instance> = waiting.extract_if(.., |instance| instance.made.elapsed() >= IDLE).collect();
        drop(waiting);
        // Unmapping memory takes a while; nobody should wait for the lock meanwhile.
        drop(old);
    }
}
