//! The threads of guests: one for each running call, so that the kernel shares the processors fairly between guests
//! that spin and everything else. Each thread is confined by Landlock (`pools`). A short call may begin on the
//! thread that read it (`haft_core::tool::inline`). No guest runs on haft's own runtime, and on a guest's thread
//! haft opens no file and starts no process.

pub(crate) mod landlock;
pub(crate) mod permits;
pub(crate) mod pools;
pub(crate) mod short_call;
pub(crate) mod turns;
pub(crate) mod writable;

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::threads::permits::{MAX_GUESTS, Permit, Permits};
use crate::threads::pools::ThreadPools;
use crate::threads::turns::Turns;
use crate::threads::writable::Writable;
use haft_core::sync::TryOnceLock;
use haft_core::tool::inline;

/// Number of threads beyond one for each guest: for preparing instances, resolving names, and guests stuck in the
/// kernel.
const SPARE_THREADS: usize = 24;

/// Number of threads for haft's own work on components: more than processors would delay each other, and some may wait
/// for a slow disk.
const OWN_THREADS: usize = 32;

/// Time that an idle thread of haft's own waits for work.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The threads. A drop abandons running work.
pub(super) struct Threads {
    own: TryOnceLock<Runtime>,
    pub(super) pools: ThreadPools,
    pub(super) permits: Permits,
    pub(super) turns: Turns,
}

/// The reason why work gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    /// The thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// Landlock could not restrict the thread, although it restricted earlier ones.
    #[error("the thread could not be confined: {0}")]
    Unconfined(String),
    /// The thread ended without an answer.
    #[error("the thread panicked; this is a bug in haft")]
    Panicked,
}

impl Threads {
    /// Creates the owner of the threads. Each thread starts when there is work.
    pub(super) fn new() -> Self {
        let pools = ThreadPools::new(MAX_GUESTS + SPARE_THREADS);
        Self { own: TryOnceLock::new(), pools, permits: Permits::default(), turns: Turns::default() }
    }

    /// Starts the thread of haft's timers, if it does not run yet.
    ///
    /// Called before the first guest, on a thread that Landlock does not restrict, because threads inherit restrictions
    /// and haft's own threads must have none.
    pub(super) fn start_own(&self) -> io::Result<&Runtime> {
        let start = || {
            Builder::new_multi_thread()
                .worker_threads(1)
                .max_blocking_threads(OWN_THREADS)
                .thread_keep_alive(KEEP_ALIVE)
                .thread_name("haft-plugins")
                .enable_all()
                .build()
        };
        self.own.get_or_try_init(start)
    }

    /// Polls `work` once on the calling thread, if calls may run inline there and `writable` is empty. Otherwise,
    /// or if `work` waits, returns `Pending`.
    pub(super) fn poll_inline<W: Future + ?Sized>(
        &self,
        writable: &Writable,
        work: Pin<&mut W>,
    ) -> Result<Poll<W::Output>, NoAnswer> {
        if !inline::is_enabled() || !writable.is_nowhere() {
            return Ok(Poll::Pending);
        }
        self.pools.pool(writable)?.poll_inline(work).map_err(NoAnswer::Unconfined)
    }

    /// Runs `work` on a guest's thread that may write to `writable`, and waits for the value that it sends. The
    /// work may continue after that.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        permit: Permit,
        writable: Writable,
        work: impl FnOnce(&Handle, oneshot::Sender<T>) + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let trouble = Arc::new(OnceLock::new());
        let own_trouble = trouble.clone();
        let (sender, receiver) = oneshot::channel();
        self.pools.pool(&writable)?.start(move |inside| {
            match inside {
                Ok(handle) => work(handle, sender),
                // Set before the sender is dropped: the caller reads it then.
                Err(reason) => drop((own_trouble.set(reason), sender)),
            }
            drop(permit);
        });
        receiver.await.map_err(|_| trouble.get().cloned().map_or(NoAnswer::Panicked, NoAnswer::Unconfined))
    }

    /// Runs `work` on a guest's thread without waiting for it. Not to be called from a guest's thread.
    pub(super) fn start(&self, writable: &Writable, work: impl FnOnce(&Handle) + Send + 'static) {
        match self.pools.pool(writable) {
            Ok(pool) => pool.start(move |inside| match inside {
                Ok(handle) => work(handle),
                Err(reason) => tracing::debug!(reason, "thread for a guest not confined"),
            }),
            Err(error) => tracing::debug!(%error, "cannot start a thread for a guest"),
        }
    }

    pub(super) async fn own<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        // A new thread inherits the restrictions of its parent, which may be a guest's thread.
        let done = self.start_own()?.spawn(async { tokio::task::spawn_blocking(work).await }).await;
        done.flatten().map_err(|_| NoAnswer::Panicked)
    }

    pub(super) fn for_guests(&self) -> OwnThreads {
        OwnThreads(self.start_own().ok().map(|own| own.handle().clone()))
    }

    /// Runs `task` beside the guests; for waiting, not for work.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self.start_own() {
            Ok(own) => drop(own.spawn(task)),
            Err(error) => tracing::debug!(%error, "no thread for haft's own work"),
        }
    }
}

/// Threads of haft's own, for calls from a guest's thread; `None` if they could not be started.
#[derive(Clone)]
pub(super) struct OwnThreads(Option<Handle>);

impl OwnThreads {
    /// Runs blocking work with all of haft's rights, from a guest's thread: a thread of haft starts the worker, because
    /// a child of the guest's thread would have its restrictions.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let own = self.0.as_ref().ok_or(NoAnswer::Panicked)?;
        let handed_on = own.spawn(async { tokio::task::spawn_blocking(work).await });
        handed_on.await.ok().and_then(Result::ok).ok_or(NoAnswer::Panicked)
    }
}

impl Drop for Threads {
    /// Does not wait: a thread stuck in the kernel must not prevent haft's end.
    fn drop(&mut self) {
        if let Some(own) = self.own.take() {
            own.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests;
