//! The threads of a worker's calls. Short calls run on the thread of its connection, which reads requests and
//! writes answers: no thread wakes another. If several are queued, idle threads of the same kind take some. All
//! other calls run on haft's runtime.
//!
//! Such a thread is confined from its first call on and may not write anywhere. Later work of the connection on it,
//! during a reconnection, needs no such right: it resolves names and reads certificates.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft_core::tool::inline::{self, InlineThread, InlineThreads, ThreadLoad};
use tokio::runtime::Handle;

use crate::link::Link;
use crate::settings::Settings;
use crate::{LinkError, unusable};

/// The maximum size of a short call in bytes: checking larger arguments takes longer.
pub(super) const MAX_SHORT: usize = 64 << 10;

/// How many processors get no thread of `others`: one for the connection, and one for all other work.
const SPARE: usize = 2;

/// How many short calls run before the connection writes their answers and reads again.
const IN_A_ROW: usize = 16;

/// The threads of one worker.
pub(super) struct CallThreads {
    connection: InlineThread,
    others: InlineThreads,
    /// haft's runtime.
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

    /// Connects, on the thread of the connection.
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
        let ended = || unusable("its thread has ended", &"a defect of haft");
        self.connection.output(work).await.ok_or_else(ended)
    }

    /// Runs a call that may take long.
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
