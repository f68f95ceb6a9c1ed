//! Instances that serve several calls, where program.toml asks for it (`[plugins.reuse]`). Each serves one call at a
//! time, and only calls of one caller, with exactly the rights, limits and directories it was made with. It is replaced after a
//! trap, a time-out or a cancel, when it left something open, and when it is old or idle. Its memory is not cleared
//! between calls.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::call::Call;
use crate::engine::Engine;
use crate::instance::Instance;
use crate::threads::writable::DirectoryId;
use haft_core::limit::{self, Limits};
use haft_core::sync::Lock;

/// Calls of one plugin that wait for an instance. Each holds its arguments.
const MAX_WAITING: usize = 256;

/// The reusable instances of a plugin, and the permits to use them.
pub(crate) struct Reuse {
    settings: limit::Reuse,
    permits: Arc<Semaphore>,
    waiting: Semaphore,
    idle_instances: Lock<IdleList>,
}

#[derive(Default)]
struct IdleList {
    /// The one used last stands last.
    idle: Vec<Idle>,
    /// Whether a task that drops expired instances is running.
    is_watched: bool,
}

struct Idle {
    instance: Instance,
    rights: InstanceRights,
    since: Instant,
}

/// What an instance depends on besides its grant: who calls, since its memory knows what earlier calls were about; its
/// open directories, and the runtime that drives its timers and sockets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InstanceRights {
    /// Where a server tells its callers apart.
    caller: Option<Arc<str>>,
    runtime: runtime::Id,
    directories: Vec<Option<DirectoryId>>,
}

/// The right to use one instance, until it is dropped.
pub(crate) struct InstancePermit(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

/// Why a call gets no instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoInstance {
    #[error("was cancelled while it waited for its plugin")]
    Cancelled,
    #[error(
        "timed out after {time:?}: all {instances} instances of its plugin were busy, and `max_concurrent` in `[plugins.reuse]` allows no more"
    )]
    Busy { instances: u32, time: Duration },
    #[error("did not run: {MAX_WAITING} calls wait for its plugin already")]
    Crowded,
}

impl InstanceRights {
    /// The rights of a call on the current thread, which is a guest's.
    pub(crate) fn for_call(call: &Call) -> Self {
        let directories = call.writable.as_ref().map(|writable| writable.identities(&call.grant));
        let (caller, runtime) = (call.caller.clone(), runtime::Handle::current().id());
        Self { caller, runtime, directories: directories.unwrap_or_default() }
    }
}

impl Reuse {
    /// Without instances yet.
    pub(crate) fn new(settings: limit::Reuse) -> Self {
        let permits = Arc::new(Semaphore::new(settings.max_concurrent as usize));
        Self { settings, permits, waiting: Semaphore::new(MAX_WAITING), idle_instances: Lock::default() }
    }

    /// Waits for a permit, for as long as the whole call may take.
    pub(crate) async fn acquire(
        &self,
        limits: &Limits,
        cancel: &CancellationToken,
    ) -> Result<InstancePermit, NoInstance> {
        let _waiting = self.waiting.try_acquire().map_err(|_| NoInstance::Crowded)?;
        let busy = NoInstance::Busy { instances: self.settings.max_concurrent, time: limits.time };
        tokio::select! {
            biased;
            // The semaphore is never closed.
            permit = self.permits.clone().acquire_owned() => permit.map(InstancePermit).map_err(|_| busy),
            () = cancel.cancelled() => Err(NoInstance::Cancelled),
            () = tokio::time::sleep(limits.time) => Err(busy),
        }
    }

    /// Takes an idle instance with exactly these rights. Where there is none, the oldest give
    /// way to one that is to be made. The caller holds a permit.
    pub(crate) fn take(&self, call: &Call, rights: &InstanceRights) -> Option<Instance> {
        let mut idle_instances = self.idle_instances.lock();
        let fits = |idle: &Idle| {
            idle.rights == *rights && idle.instance.is_for(&call.grant, &call.limits) && !self.is_stale(idle)
        };
        if let Some(place) = idle_instances.idle.iter().rposition(fits) {
            return Some(idle_instances.idle.remove(place).instance);
        }
        let surplus = idle_instances.idle.len().saturating_sub(self.permits.available_permits());
        let surplus: Vec<Idle> = idle_instances.idle.drain(..surplus).collect();
        drop(idle_instances);
        // Unmapping memory is slow: it happens after the lock is released.
        drop(surplus);
        None
    }

    /// Keeps an instance after a call that it served to its end, if it may serve another; else it
    /// comes back.
    pub(crate) fn keep(
        self: &Arc<Self>,
        engine: &Engine,
        mut instance: Instance,
        rights: InstanceRights,
    ) -> Option<Instance> {
        if instance.calls() >= self.settings.max_calls || !instance.is_tidy() {
            return Some(instance);
        }
        let Some(spare) = engine.idle_slot() else { return Some(instance) };
        instance.set_aside(spare);
        instance.renew();
        let mut idle_instances = self.idle_instances.lock();
        idle_instances.idle.push(Idle { instance, rights, since: Instant::now() });
        if !std::mem::replace(&mut idle_instances.is_watched, true) {
            engine.threads().spawn(expire_in_background(Arc::downgrade(self), self.settings.max_idle));
        }
        None
    }

    fn is_stale(&self, idle: &Idle) -> bool {
        idle.since.elapsed() >= self.settings.max_idle
    }

    /// Drops instances that were idle for too long; when to check again, or `None` when no instance is left.
    fn expire(&self) -> Option<Duration> {
        let mut idle_instances = self.idle_instances.lock();
        let stale: Vec<Idle> = idle_instances.idle.extract_if(.., |idle| self.is_stale(idle)).collect();
        let oldest = idle_instances.idle.iter().map(|idle| idle.since).min();
        idle_instances.is_watched = oldest.is_some();
        drop(idle_instances);
        drop(stale);
        oldest.map(|since| self.settings.max_idle.saturating_sub(since.elapsed()))
    }
}

/// Drops idle instances in time, until none is left.
async fn expire_in_background(reuse: Weak<Reuse>, first: Duration) {
    let mut wait = first;
    loop {
        tokio::time::sleep(wait).await;
        let next = reuse.upgrade().and_then(|reuse| reuse.expire());
        let Some(next) = next else { return };
        wait = next;
    }
}
