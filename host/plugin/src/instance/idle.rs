//! Idle instances of a plugin: one that was created before its call (`prewarm`), or those that have served calls and
//! may serve more. Each is dropped after a maximum idle time.
//!
//! Instances serve several calls if program.toml enables it (`[plugins.reuse]`). An instance serves one call at a time,
//! and only calls of one caller with its original rights, limits and directories. It is replaced after a trap, a timeout
//! or a cancellation, after a call that left a resource open, and after its maximum age or idle time. Its memory is not
//! cleared between calls.

use std::any::Any;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable};

use crate::call::Call;
use crate::engine::Engine;
use crate::instance::Instance;
use crate::threads::writable::DirectoryId;
use haft_core::grant::Grant;
use haft_core::limit::{self, Limits};
use haft_core::sync::Lock;

/// Maximum idle time of a prewarmed instance. It holds the pages that it wrote: some 100 KiB, a few MiB with an
/// interpreter.
pub(crate) const PREWARMED: Duration = Duration::from_secs(10);

pub(crate) struct IdleInstances {
    max_idle: Duration,
    list: Lock<List>,
}

#[derive(Default)]
struct List {
    waiting: Vec<Waiting>,
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

    pub(crate) fn count(&self) -> usize {
        self.list.lock().waiting.len()
    }

    pub(crate) fn put(
        self: &Arc<Self>,
        engine: &Engine,
        mut instance: Instance,
        slot: OwnedSemaphorePermit,
        rights: Option<InstanceRights>,
    ) {
        instance.slot = Some(slot);
        let mut list = self.list.lock();
        list.waiting.push(Waiting { instance, rights, since: Instant::now() });
        if !std::mem::replace(&mut list.is_watched, true) {
            engine.threads().spawn(expire_in_background(Arc::downgrade(self), self.max_idle));
        }
    }

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

async fn expire_in_background(idle: Weak<IdleInstances>, first: Duration) {
    let mut wait = first;
    loop {
        tokio::time::sleep(wait).await;
        let next = idle.upgrade().and_then(|idle| idle.expire());
        let Some(next) = next else { return };
        wait = next;
    }
}

/// Maximum number of calls of one plugin that wait for an instance. Each holds its arguments.
const MAX_WAITING: usize = 256;

/// The settings of reuse of a plugin's instances, and the permits to use them.
pub(crate) struct Reuse {
    settings: limit::Reuse,
    permits: Arc<Semaphore>,
    waiting: Semaphore,
}

/// The reason why a call gets no instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoInstance {
    #[error("was cancelled while it waited for its plugin")]
    Cancelled,
    #[error(
        "timed out after {time:?}: all {instances} instances of its plugin were busy, the limit of \
         `max_concurrent` in `[plugins.reuse]`"
    )]
    Busy { instances: u32, time: Duration },
    #[error("did not run: {MAX_WAITING} calls are already waiting for its plugin")]
    Crowded,
}

impl Reuse {
    pub(crate) fn new(settings: limit::Reuse) -> Self {
        let permits = Arc::new(Semaphore::new(settings.max_concurrent as usize));
        Self { settings, permits, waiting: Semaphore::new(MAX_WAITING) }
    }

    pub(crate) async fn acquire(
        &self,
        limits: &Limits,
        cancel: &CancellationToken,
    ) -> Result<OwnedSemaphorePermit, NoInstance> {
        let _waiting = self.waiting.try_acquire().map_err(|_| NoInstance::Crowded)?;
        let busy = NoInstance::Busy { instances: self.settings.max_concurrent, time: limits.time };
        tokio::select! {
            biased;
            // The semaphore is never closed.
            permit = self.permits.clone().acquire_owned() => permit.map_err(|_| busy),
            () = cancel.cancelled() => Err(NoInstance::Cancelled),
            () = tokio::time::sleep(limits.time) => Err(busy),
        }
    }

    pub(crate) fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// Returns whether an instance may serve another call after a completed one.
    pub(crate) fn may_keep(&self, instance: &mut Instance) -> bool {
        instance.calls < self.settings.max_calls && instance.is_tidy()
    }
}

// Checks for resources that a guest left open after a call. Counts only kinds of resources; rights are checked when
// resources are opened.

/// Streams that every guest may keep: its standard input, output and error.
const STANDARD_STREAMS: usize = 3;

/// Pollables that a guest may keep: those of its streams, and those that a C library never drops.
const MAX_KEPT: usize = 100;

/// Returns whether only resources of every call are open: `directories` directories, standard streams, and their
/// pollables. Not files, connections, requests or answers.
pub(crate) fn is_clean(table: &mut ResourceTable, directories: usize) -> bool {
    let (mut own, mut streams, mut others) = (0, 0, 0);
    for entry in table.iter_mut() {
        let entry: &dyn Any = entry;
        if let Some(descriptor) = entry.downcast_ref() {
            match descriptor {
                Descriptor::Dir(_) => own += 1,
                Descriptor::File(_) => return false,
            }
        } else if entry.is::<DynInputStream>() || entry.is::<DynOutputStream>() {
            streams += 1;
        } else if entry.is::<DynPollable>() {
            others += 1;
        } else {
            return false;
        }
    }
    own <= directories && streams <= STANDARD_STREAMS && others <= MAX_KEPT
}

#[cfg(test)]
mod tests {
    use wasmtime_wasi::filesystem::{Dir, File};
    use wasmtime_wasi::p2::pipe::{ClosedInputStream, SinkOutputStream};
    use wasmtime_wasi::{FsPerms, OpenMode};

    use super::*;

    fn directory() -> Descriptor {
        let open = std::fs::File::open("/").unwrap();
        Descriptor::Dir(Dir::new(open, FsPerms::ReadOnly, OpenMode::READ, true))
    }

    fn table(fill: impl FnOnce(&mut ResourceTable)) -> ResourceTable {
        let mut table = ResourceTable::new();
        let (input, output): (DynInputStream, DynOutputStream) =
            (Box::new(ClosedInputStream), Box::new(SinkOutputStream));
        table.push(input).unwrap();
        table.push(output).unwrap();
        table.push(directory()).unwrap();
        fill(&mut table);
        table
    }

    /// The resources of every guest may stay open; others may not.
    #[test]
    fn what_is_open_is_seen() {
        assert!(is_clean(&mut table(|_| {}), 1));
        assert!(!is_clean(&mut table(|_| {}), 0), "a directory more than there are");
        let file = |table: &mut ResourceTable| {
            let open = std::fs::File::open("/dev/null").unwrap();
            let file = File::new(open, FsPerms::ReadOnly, OpenMode::READ, true);
            let _ = table.push(Descriptor::File(file)).unwrap();
        };
        assert!(!is_clean(&mut table(file), 1));
        let streams = |table: &mut ResourceTable| {
            for _ in 0..STANDARD_STREAMS {
                let stream: DynOutputStream = Box::new(SinkOutputStream);
                table.push(stream).unwrap();
            }
        };
        assert!(!is_clean(&mut table(streams), 1));
        let other = |table: &mut ResourceTable| {
            let _ = table.push("anything else").unwrap();
        };
        assert!(!is_clean(&mut table(other), 1));
    }
}
