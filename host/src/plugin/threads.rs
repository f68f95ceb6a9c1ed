//! Where guests run: on threads of their own, one for each call under way, so that the kernel
//! shares the processors fairly between guests that spin and everything else. Nothing of haft's
//! own runs here, and no guest ever runs on haft's own runtime.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, oneshot};

/// Guests at work at once; further calls wait their turn. Each holds a thread, a memory of its
/// own and a few file descriptors.
pub(super) const MAX_GUESTS: usize = 64;

/// Threads beyond the guests': for preparing instances, for looking names up and for guests stuck
/// in the kernel.
const SPARE_THREADS: usize = 24;

/// How long an idle thread waits for the next guest.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The guests' threads. Dropping it abandons whatever still runs.
pub(super) struct Threads {
    runtime: Option<Runtime>,
    permits: Arc<Semaphore>,
}

impl Threads {
    /// Prepares the threads; none runs until there is a guest but the one that keeps their timers.
    pub(super) fn new() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(MAX_GUESTS + SPARE_THREADS)
            .thread_keep_alive(KEEP_ALIVE)
            .thread_name("haft-guest")
            .enable_all()
            .build()?;
        Ok(Self { runtime: Some(runtime), permits: Arc::new(Semaphore::new(MAX_GUESTS)) })
    }

    /// Runs `work` on a thread of its own and waits for what it sends. The work may go on after
    /// that; `None` when it ended without an answer.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Handle, oneshot::Sender<T>) + Send + 'static,
    ) -> Option<T> {
        let permit = self.permits.clone().acquire_owned().await.ok()?;
        let handle = self.runtime.as_ref()?.handle().clone();
        let (sender, receiver) = oneshot::channel();
        self.runtime.as_ref()?.spawn_blocking(move || {
            work(&handle, sender);
            drop(permit);
        });
        receiver.await.ok()
    }

    /// Runs `work` on a thread of its own, with nobody waiting for it.
    pub(super) fn start(&self, work: impl FnOnce(&Handle) + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            let handle = runtime.handle().clone();
            runtime.spawn_blocking(move || work(&handle));
        }
    }

    /// Runs `task` beside the guests; for waiting, not for work.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }
}

impl Drop for Threads {
    /// A guest stuck in the kernel must not keep haft from ending.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
