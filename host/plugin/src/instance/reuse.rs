//! Instances that serve several calls, where program.toml asks for it (`[plugins.reuse]`). Each serves one call at a
//! time, and only calls of one caller, with exactly the rights, limits and directories it was made with. It is replaced after a
//! trap, a time-out or a cancel, when it left something open, and when it is old or idle. Its memory is not cleared
//! between calls.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::instance::Instance;
use haft_core::limit::{self, Limits};

/// Calls of one plugin that wait for an instance. Each holds its arguments.
const MAX_WAITING: usize = 256;

/// How often the instances of a plugin are reused, and the permits to use them.
pub(crate) struct Reuse {
    settings: limit::Reuse,
    permits: Arc<Semaphore>,
    waiting: Semaphore,
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

impl Reuse {
    /// Of which none is used yet.
    pub(crate) fn new(settings: limit::Reuse) -> Self {
        let permits = Arc::new(Semaphore::new(settings.max_concurrent as usize));
        Self { settings, permits, waiting: Semaphore::new(MAX_WAITING) }
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

    /// How many instances are not used.
    pub(crate) fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// Whether an instance may serve another call after one that it served to its end.
    pub(crate) fn may_keep(&self, instance: &mut Instance) -> bool {
        instance.calls() < self.settings.max_calls && instance.is_tidy()
    }
}
