//! Idle instances of a plugin: one that was created before its call (`prewarm`), or those that have served calls and
//! may serve more (`reuse`). Each is dropped after a maximum idle time.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::sync::OwnedSemaphorePermit;

use crate::call::Call;
use crate::engine::Engine;
use crate::instance::Instance;
use crate::threads::writable::DirectoryId;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::sync::Lock;

/// Maximum idle time of a prewarmed instance. It holds the pages that it wrote: some 100 KiB, a few MiB with an
/// interpreter.
pub(crate) const PREWARMED: Duration = Duration::from_secs(10);

/// The instances of one plugin that wait.
pub(crate) struct IdleInstances {
    /// Maximum idle time of an instance.
    max_idle: Duration,
    list: Lock<List>,
}

#[derive(Default)]
struct List {
    /// The most recently used is last.
    waiting: Vec<Waiting>,
    /// Whether a task that drops expired instances is running.
    is_watched: bool,
}

struct Waiting {
    instance: Instance,
    /// The rights of the calls that it served; `None` if it served none.
    rights: Option<InstanceRights>,
    since: Instant,
}

/// The dependencies of a used instance besides its grant: the caller, because its memory may contain data of earlier
/// calls; its open directories, and the runtime that drives its timers and sockets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InstanceRights {
    /// The caller, if a server identifies callers.
    caller: Option<Arc<str>>,
    runtime: runtime::Id,
    directories: Vec<Option<DirectoryId>>,
}

impl InstanceRights {
    /// Returns the rights of a call on the current thread, which is a guest's.
    pub(crate) fn for_call(call: &Call) -> Self {
        let directories = call.writable.as_ref().map(|writable| writable.identities(&call.grant));
        let (caller, runtime) = (call.caller.clone(), runtime::Handle::current().id());
        Self { caller, runtime, directories: directories.unwrap_or_default() }
    }
}

impl IdleInstances {
    /// Creates an empty list.
    pub(crate) fn new(max_idle: Duration) -> Self {
        Self { max_idle, list: Lock::default() }
    }

    /// Takes an instance with exactly the rights and limits of `call`. `rights` is set if instances serve several
    /// calls.
    pub(crate) fn take(&self, call: &Call, rights: Option<&InstanceRights>) -> Option<Instance> {
        let mut list = self.list.lock();
        let found = list.waiting.iter().rposition(|waiting| {
            waiting.rights.as_ref() == rights && self.fits(waiting, &call.grant, &call.limits)
        });
        found.map(|place| list.waiting.remove(place).instance)
    }

    /// Returns whether an instance with these rights and limits waits.
    pub(crate) fn has(&self, grant: &Grant, limits: &Limits) -> bool {
        self.list.lock().waiting.iter().any(|waiting| self.fits(waiting, grant, limits))
    }

    /// Returns the number of idle instances.
    pub(crate) fn count(&self) -> usize {
        self.list.lock().waiting.len()
    }

    /// Adds an idle instance, which holds `slot`.
    pub(crate) fn put(
        self: &Arc<Self>,
        engine: &Engine,
        mut instance: Instance,
        slot: OwnedSemaphorePermit,
        rights: Option<InstanceRights>,
    ) {
        instance.set_aside(slot);
        let mut list = self.list.lock();
        list.waiting.push(Waiting { instance, rights, since: Instant::now() });
        if !std::mem::replace(&mut list.is_watched, true) {
            engine.threads().spawn(expire_in_background(Arc::downgrade(self), self.max_idle));
        }
    }

    /// Drops the oldest, down to `most`.
    pub(crate) fn shrink(&self, most: usize) {
        let mut list = self.list.lock();
        let surplus = list.waiting.len().saturating_sub(most);
        let surplus: Vec<Waiting> = list.waiting.drain(..surplus).collect();
        drop(list);
        // Unmapping memory is slow: it happens after the lock is released.
        drop(surplus);
    }

    fn fits(&self, waiting: &Waiting, grant: &Grant, limits: &Limits) -> bool {
        !self.is_stale(waiting) && waiting.instance.is_for(grant, limits)
    }

    fn is_stale(&self, waiting: &Waiting) -> bool {
        waiting.since.elapsed() >= self.max_idle
    }

    /// Drops instances after their maximum idle time. Returns the time of the next check; `None` if no instance
    /// remains.
    fn expire(&self) -> Option<Duration> {
        let mut list = self.list.lock();
        let stale: Vec<Waiting> = list.waiting.extract_if(.., |waiting| self.is_stale(waiting)).collect();
        let oldest = list.waiting.iter().map(|waiting| waiting.since).min();
        list.is_watched = oldest.is_some();
        drop(list);
        drop(stale);
        oldest.map(|since| self.max_idle.saturating_sub(since.elapsed()))
    }
}

/// Drops instances in time, until none remains.
async fn expire_in_background(idle: Weak<IdleInstances>, first: Duration) {
    let mut wait = first;
    loop {
        tokio::time::sleep(wait).await;
        let next = idle.upgrade().and_then(|idle| idle.expire());
        let Some(next) = next else { return };
        wait = next;
    }
}
