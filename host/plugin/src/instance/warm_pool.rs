//! Prewarmed instances of a plugin, made ahead of the calls that will use them. Each serves one call with exactly the
//! rights it was made with, and is dropped when none comes within [`IDLE`].
//!
//! They are made when the plugin has been quiet for a moment: making them takes as long as it
//! does during a call, so in the middle of many calls it would only be in their way. A thread that runs calls
//! inline makes one right after a call, when it is idle.

use std::time::Duration;

use crate::instance::Instance;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::sync::Lock;

/// Sets of rights and limits that instances are kept for: a plugin's tools that read and those
/// that write.
const MAX_KINDS: usize = 2;

/// How long an instance waits for a call. Each holds a few hundred KiB; one whose memory is large, all
/// that it begins with (`waiting_memory`).
pub(crate) const IDLE: Duration = Duration::from_secs(10);

/// Instances waiting for calls.
pub(crate) struct WarmPool {
    waiting: Lock<Vec<Instance>>,
    /// Instances of each kind.
    limit: usize,
}

impl WarmPool {
    /// A pool of at most `limit` instances for each set of rights.
    pub(crate) fn new(limit: usize) -> Self {
        Self { waiting: Lock::default(), limit }
    }

    /// Takes an instance with exactly these rights and limits.
    pub(crate) fn take(&self, grant: &Grant, limits: &Limits) -> Option<Instance> {
        let mut waiting = self.waiting.lock();
        let found = waiting.iter().position(|instance| fits(instance, grant, limits));
        found.map(|index| waiting.swap_remove(index))
    }

    /// Whether one more instance with these rights and limits would be kept.
    pub(crate) fn has_room(&self, grant: &Grant, limits: &Limits) -> bool {
        let waiting = self.waiting.lock();
        let alike = waiting.iter().filter(|instance| instance.is_for(grant, limits)).count();
        alike < self.limit && waiting.len() < MAX_KINDS * self.limit
    }

    /// Whether an instance with these rights and limits waits for a call.
    pub(crate) fn has(&self, grant: &Grant, limits: &Limits) -> bool {
        let waiting = self.waiting.lock();
        waiting.iter().any(|instance| fits(instance, grant, limits))
    }

    /// How many instances wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Keeps an instance.
    pub(crate) fn put(&self, instance: Instance) {
        self.waiting.lock().push(instance);
    }

    /// Drops expired instances; whether any is left.
    pub(crate) fn expire(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let old: Vec<Instance> = waiting.extract_if(.., |instance| instance.made.elapsed() >= IDLE).collect();
        let has_any = !waiting.is_empty();
        drop(waiting);
        // Unmapping memory is slow: it happens after the lock is released.
        drop(old);
        has_any
    }
}

fn fits(instance: &Instance, grant: &Grant, limits: &Limits) -> bool {
    instance.is_for(grant, limits) && instance.made.elapsed() < IDLE
}
