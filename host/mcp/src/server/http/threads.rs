//! The threads that serve connections, one a processor. Short calls run on them (`haft_core::tool::inline`), so that
//! each thread is confined from its first call on: nothing that runs here opens a file or starts a thread or a
//! process. Everything but short calls runs on haft's runtime (`gate`).

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Builder;
use tokio::sync::mpsc;

use haft_core::tool::inline::{self, ThreadLoad};

/// Threads at most: guests and what else they need take as many processors again.
const MOST: usize = 16;

/// Connections that wait to be taken by their thread.
const WAITING: usize = 64;

/// Serves one connection to its end.
type Work = Box<dyn FnOnce() -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The threads. Dropped, they end, and whatever they still serve.
pub(super) struct HttpThreads(Vec<HttpThread>);

struct HttpThread {
    work: mpsc::Sender<(Work, Counted)>,
    /// Connections that it serves.
    count: Arc<AtomicUsize>,
}

/// A connection of a thread. Dropped, it is over.
struct Counted(Arc<AtomicUsize>);

impl HttpThreads {
    /// Starts as many as there are processors.
    pub(super) fn start() -> io::Result<Self> {
        let count = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST);
        (0..count).map(|_| HttpThread::start()).collect::<io::Result<Vec<_>>>().map(Self)
    }

    /// Has the thread that serves the fewest connections serve one more: the future of `work`, which is made there.
    pub(super) async fn serve<F>(&self, work: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // One that has ended serves nobody, and so would have the fewest for ever.
        let alive = self.0.iter().filter(|thread| !thread.work.is_closed());
        let fewest = alive.min_by_key(|thread| thread.count.load(Ordering::Relaxed));
        let Some(HttpThread { work: sender, count }) = fewest else {
            return tracing::error!(
                "a connection is dropped: every thread for them has ended, a defect of haft"
            );
        };
        count.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(count.clone());
        if sender.send((Box::new(|| Box::pin(work())), counted)).await.is_err() {
            tracing::error!("a connection is dropped: its thread has ended, a defect of haft");
        }
    }
}

impl HttpThread {
    fn start() -> io::Result<Self> {
        let (work, mut waiting) = mpsc::channel::<(Work, Counted)>(WAITING);
        let runtime = Builder::new_current_thread()
            .enable_all()
            // Before the thread blocks, all that it answered is written.
            .on_thread_park(|| inline::run_cleanups(ThreadLoad::Idle))
            .build()?;
        std::thread::Builder::new().name("haft-http".into()).spawn(move || {
            inline::enable_on_every_processor();
            runtime.block_on(async {
                while let Some((work, counted)) = waiting.recv().await {
                    let served = work();
                    tokio::spawn(async move {
                        served.await;
                        drop(counted);
                    });
                }
            });
        })?;
        Ok(Self { work, count: Arc::default() })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
