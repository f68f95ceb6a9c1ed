//! The places of a worker: the limit of concurrent calls. Does not queue: a call without a place is rejected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::link::{Link, Settings};
use crate::{LinkError, unusable};
use haft_core::tool::inline::{self, InlineThread, InlineThreads, ThreadLoad};

/// The limit and the number of running calls.
pub(super) struct Places {
    pub(super) most: u32,
    busy: AtomicU32,
    is_closed: AtomicBool,
    /// Whether a call was rejected since a place was last free: gates are notified when a place becomes free.
    is_missed: AtomicBool,
    missed: Notify,
}

/// A used place, released on drop.
pub(super) struct Taken(Arc<Places>);

impl Places {
    pub(super) fn new(most: u32) -> Self {
        let (is_closed, is_missed) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { most, busy: AtomicU32::new(0), is_closed, is_missed, missed: Notify::new() }
    }

    pub(super) fn take(places: &Arc<Self>) -> Option<Taken> {
        let one_more = |busy: u32| (busy < places.most && !places.is_closed()).then_some(busy + 1);
        let taken = places.busy.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        if taken.is_err() {
            places.is_missed.store(true, Ordering::Release);
        }
        taken.is_ok().then(|| Taken(places.clone()))
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    pub(super) fn busy(&self) -> u32 {
        self.busy.load(Ordering::Acquire)
    }

    /// Waits until a place is free after a call was rejected.
    pub(super) async fn were_missed(&self) {
        self.missed.notified().await;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Self(places) = self;
        places.busy.fetch_sub(1, Ordering::AcqRel);
        if places.is_missed.swap(false, Ordering::AcqRel) {
            places.missed.notify_one();
        }
    }
}

// The threads of a worker's calls. Short calls run on the thread of its connection, which reads requests and
// writes answers, so that no thread wakes another. If several calls are queued, idle threads of this kind take
// some. All other calls run on haft's runtime.
//
// Such a thread is confined from its first call on and may not write anywhere. Later work of the connection on the
// thread, during a reconnection, needs no such right: it resolves names and reads certificates.

/// The maximum size of a short call in bytes: checking larger arguments takes longer.
pub(super) const MAX_SHORT: usize = 64 << 10;

/// The number of processors without a thread of `others`: one for the connection, and one for all other work.
const SPARE: usize = 2;

/// The number of short calls before the connection writes their answers and reads again.
const IN_A_ROW: usize = 16;

pub(super) struct CallThreads {
    connection: InlineThread,
    others: InlineThreads,
    runtime: Handle,
    in_a_row: AtomicUsize,
}

impl CallThreads {
    /// Starts the threads. Long calls run on the runtime of the caller.
    pub(super) fn start() -> Result<Self, LinkError> {
        let what = "a worker cannot start its threads";
        let connection = InlineThread::start("haft-calls").map_err(|error| unusable(what, &error))?;
        let others = InlineThreads::start("haft-calls", SPARE).map_err(|error| unusable(what, &error))?;
        Ok(Self { connection, others, runtime: Handle::current(), in_a_row: AtomicUsize::new(0) })
    }

    pub(super) async fn connect(
        &self,
        server: &Settings,
        name: String,
        inbox: String,
    ) -> Result<Arc<Link>, LinkError> {
        let server = server.clone();
        self.beside_connection(async move || Link::connect_with_inbox(&server, &name, inbox).await).await?
    }

    /// Runs `work` on the thread of the connection.
    pub(super) async fn beside_connection<F>(
        &self,
        work: impl FnOnce() -> F + Send + 'static,
    ) -> Result<F::Output, LinkError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let ended = || unusable("its thread has ended", &"a bug in haft");
        self.connection.output(work).await.ok_or_else(ended)
    }

    pub(super) fn run_long(&self, call: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(call);
    }

    /// Runs a short call from the thread of the connection: on this thread, or, if `more` calls are queued, on an
    /// idle thread.
    pub(super) async fn run_short(&self, call: impl Future<Output = ()> + Send + 'static, more: bool) {
        let idle = self.others.least_busy().filter(|thread| more && thread.running() == 0);
        if let Some(thread) = idle {
            let runtime = self.runtime.clone();
            return thread.run(async move || begin(call, &runtime)).await;
        }
        begin(call, &self.runtime);
        if !more || self.in_a_row.fetch_add(1, Ordering::Relaxed) >= IN_A_ROW {
            self.in_a_row.store(0, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    }
}

/// Polls `call` once here; if it does not complete, `runtime` continues it.
fn begin(call: impl Future<Output = ()> + Send + 'static, runtime: &Handle) {
    if let Err(rest) = inline::poll_once(Box::pin(call), runtime) {
        runtime.spawn(rest);
    }
    inline::run_cleanups(ThreadLoad::Busy);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_more_than_there_are_and_a_missed_one_is_told() {
        let places = Arc::new(Places::new(1));
        let taken = Places::take(&places).unwrap();
        assert!(Places::take(&places).is_none());
        drop(taken);
        places.were_missed().await;
        assert_eq!(places.busy(), 0);
        places.close();
        assert!(Places::take(&places).is_none());
    }
}
