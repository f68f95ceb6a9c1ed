//! Pools of guests' threads, one for each set of writable directories. Landlock restrictions of a thread are
//! permanent, so that a call runs on a thread that may write exactly the directories of the call. The number of
//! pools is bounded: an idle pool is dropped for a new one, the least recently used first.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::threads::landlock::{FirstState, LandlockRules, LandlockState};
use crate::threads::writable::{Extent, Writable};
use haft_core::sync::Lock;

/// Maximum number of pools for later calls. A program needs about two, one for tools that read and one for tools
/// that write, and one more for each plugin with a grant of its own.
const MAX_POOLS: usize = 16;

/// Time that an idle thread waits for the next guest.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

thread_local! {
    static IS_RESTRICTED: Cell<bool> = const { Cell::new(false) };
}

pub(crate) struct ThreadPools {
    pools: Lock<Vec<Arc<Pool>>>,
    verdict: Arc<FirstState>,
    threads: usize,
}

pub(crate) struct Pool {
    extent: Extent,
    runtime: Option<Runtime>,
    confinement: Arc<Confinement>,
}

/// Applies the rules of a pool to its threads.
struct Confinement {
    rules: LandlockRules,
    verdict: Arc<FirstState>,
}

impl ThreadPools {
    /// Creates the pools' owner without pools; each pool will have at most `threads` threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self { pools: Lock::default(), verdict: Arc::default(), threads }
    }

    /// Returns the pool whose threads may write exactly to `writable`. Not to be called from a guest's thread: a
    /// new thread inherits the rules of its parent.
    pub(crate) fn pool(&self, writable: &Writable) -> io::Result<Arc<Pool>> {
        let extent = writable.extent();
        let mut pools = self.pools.lock();
        if let Some(known) = pools.iter().position(|pool| pool.extent == extent) {
            let pool = pools.remove(known);
            pools.push(pool.clone());
            return Ok(pool);
        }
        let confinement = Confinement { rules: LandlockRules::new(writable), verdict: self.verdict.clone() };
        let pool = Arc::new(Pool::new(extent, confinement, self.threads)?);
        if pools.len() >= MAX_POOLS
            && let Some(idle) = pools.iter().position(|pool| Arc::strong_count(pool) == 1)
        {
            pools.remove(idle);
        }
        pools.push(pool.clone());
        Ok(pool)
    }

    /// Returns the extent to which the kernel enforces the rules. If no guest has run yet, tests it on a
    /// separate thread.
    pub(crate) fn state(&self) -> LandlockState {
        let failed = |reason: String| LandlockState::None { reason };
        if self.verdict.get().is_none() {
            let rules = LandlockRules::new(&Writable::default());
            let verdict = self.verdict.clone();
            let tried = std::thread::Builder::new()
                .name("haft-landlock".into())
                .spawn(move || rules.restrict_thread(&verdict));
            match tried.map(std::thread::JoinHandle::join) {
                Ok(_) => {}
                Err(error) => return failed(format!("cannot start a thread: {error}")),
            }
        }
        self.verdict.get().cloned().unwrap_or_else(|| failed("it could not be tried".into()))
    }
}

impl Confinement {
    fn enter(&self) -> Result<(), String> {
        if !IS_RESTRICTED.get() {
            self.rules.restrict_thread(&self.verdict)?;
            IS_RESTRICTED.set(true);
        }
        Ok(())
    }
}

impl Pool {
    fn new(extent: Extent, confinement: Confinement, threads: usize) -> io::Result<Self> {
        let confinement = Arc::new(confinement);
        let own = confinement.clone();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(threads)
            .thread_keep_alive(KEEP_ALIVE)
            .thread_name("haft-guest")
            // A thread that cannot be restricted now tries again when there is work.
            .on_thread_start(move || drop(own.enter()))
            .enable_all()
            .build()?;
        Ok(Self { extent, runtime: Some(runtime), confinement })
    }

    /// Runs `work` on a restricted thread; where the thread cannot be restricted, `work` gets the reason.
    pub(crate) fn start(self: &Arc<Self>, work: impl FnOnce(Result<&Handle, String>) + Send + 'static) {
        let Some(runtime) = &self.runtime else { return };
        // The clone counts as a use, which prevents the drop of the pool.
        let (pool, handle) = (self.clone(), runtime.handle().clone());
        runtime.spawn_blocking(move || work(pool.confinement.enter().map(|()| &handle)));
    }

    /// Polls `work` once on the calling thread, which is restricted from then on.
    /// Errors: The reason why the thread cannot be restricted.
    pub(crate) fn poll_inline<W: Future + ?Sized>(
        &self,
        work: Pin<&mut W>,
    ) -> Result<Poll<W::Output>, String> {
        let Some(runtime) = &self.runtime else { return Ok(Poll::Pending) };
        self.confinement.enter()?;
        let _inside = runtime.enter();
        Ok(work.poll(&mut Context::from_waker(Waker::noop())))
    }
}

impl Drop for Pool {
    /// Does not wait: a guest stuck in the kernel must not prevent haft's end.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests;
