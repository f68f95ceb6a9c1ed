//! Threads that read calls and run short ones, one a processor. Each is confined from its first call on, and so is every
//! thread that it starts: what runs here needs no right to write and starts no process. Everything but short calls runs
//! on haft's runtime.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};

use super::{ThreadLoad, enable, run_cleanups};

/// Threads at most: guests and what else they need take as many processors again.
const MOST: usize = 16;

/// Pieces of work that wait to be taken by their thread.
const WAITING: usize = 64;

/// Makes the future of a piece of work: a connection, or one call.
type Work = Box<dyn FnOnce() -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The threads. Dropped, they end, and whatever they still run.
#[derive(Debug)]
pub struct InlineThreads(Vec<InlineThread>);

/// One of them.
#[derive(Debug)]
pub struct InlineThread {
    work: mpsc::Sender<(Work, Counted)>,
    /// What it runs.
    count: Arc<AtomicUsize>,
}

/// A piece of work of a thread. Dropped, it is over.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl InlineThreads {
    /// Starts as many as there are processors but for `spare`, 16 at most, all with one name.
    ///
    /// # Errors
    ///
    /// Where the system has no thread more.
    pub fn start(name: &'static str, spare: usize) -> io::Result<Self> {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let count = processors.saturating_sub(spare).min(MOST);
        (0..count).map(|_| InlineThread::start(name)).collect::<io::Result<Vec<_>>>().map(Self)
    }

    /// The thread that runs the least, or the first of those.
    pub fn least_busy(&self) -> Option<&InlineThread> {
        // One that has ended runs nothing, and so would have the least for ever.
        self.0.iter().filter(|thread| !thread.work.is_closed()).min_by_key(|thread| thread.running())
    }

    /// Has the thread that runs the least run one piece of work more ([`InlineThread::run`]).
    pub async fn run<F>(&self, work: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(thread) = self.least_busy() else {
            return tracing::error!("work is dropped: every thread for it has ended, a defect of haft");
        };
        thread.run(work).await;
    }
}

impl InlineThread {
    /// Starts one. Dropped, it ends, and whatever it still runs.
    ///
    /// # Errors
    ///
    /// Where the system has no thread more.
    pub fn start(name: &'static str) -> io::Result<Self> {
        let (work, mut waiting) = mpsc::channel::<(Work, Counted)>(WAITING);
        let runtime = Builder::new_current_thread()
            .enable_all()
            // Before the thread blocks, all that it answered is written.
            .on_thread_park(|| run_cleanups(ThreadLoad::Idle))
            .build()?;
        std::thread::Builder::new().name(name.into()).spawn(move || {
            enable();
            runtime.block_on(async {
                while let Some((work, counted)) = waiting.recv().await {
                    let work = work();
                    tokio::spawn(async move {
                        work.await;
                        drop(counted);
                    });
                }
            });
        })?;
        Ok(Self { work, count: Arc::default() })
    }

    /// Pieces of work that it has and that have not ended.
    pub fn running(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Runs one piece of work: the future of `work`, which is made there. Waits while too much of it waits.
    pub async fn run<F>(&self, work: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.count.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(self.count.clone());
        if self.work.send((Box::new(|| Box::pin(work())), counted)).await.is_err() {
            tracing::error!("work is dropped: its thread has ended, a defect of haft");
        }
    }

    /// The same, for what it comes to; nothing where the thread ended in it.
    pub async fn output<F>(&self, work: impl FnOnce() -> F + Send + 'static) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (sender, output) = oneshot::channel();
        let work = async move || {
            // Whoever does not wait any more wants no output.
            let _ = sender.send(work().await);
        };
        self.run(work).await;
        output.await.ok()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
