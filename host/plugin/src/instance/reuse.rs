//! Instances that serve several calls, if program.toml enables it (`[plugins.reuse]`). An instance serves one call
//! at a time, and only calls of one caller with its original rights, limits and directories. It is replaced after a
//! trap, a timeout or a cancellation, after a call that left a resource open, and after its maximum age or idle
//! time. Its memory is not cleared between calls.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable};

use crate::instance::Instance;
use haft_core::limit::{self, Limits};

/// Maximum number of calls of one plugin that wait for an instance. Each holds its arguments.
const MAX_WAITING: usize = 256;

/// The settings of reuse of a plugin's instances, and the permits to use them.
pub(crate) struct Reuse {
    settings: limit::Reuse,
    permits: Arc<Semaphore>,
    waiting: Semaphore,
}

/// The right to use one instance, until it is dropped.
pub(crate) struct InstancePermit(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

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
    /// Creates the state without used instances.
    pub(crate) fn new(settings: limit::Reuse) -> Self {
        let permits = Arc::new(Semaphore::new(settings.max_concurrent as usize));
        Self { settings, permits, waiting: Semaphore::new(MAX_WAITING) }
    }

    /// Waits for a permit, at most for the time limit of the call.
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

    /// Returns the number of unused instances.
    pub(crate) fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// Returns whether an instance may serve another call after a completed one.
    pub(crate) fn may_keep(&self, instance: &mut Instance) -> bool {
        instance.calls() < self.settings.max_calls && instance.is_tidy()
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
