//! Per-thread state for short calls that run inline: on the thread that reads calls, without waking another thread.
//! The thread opts in once ([`enable`]). Values that a finished call has yet to drop are queued on the thread
//! ([`defer_cleanup`]) and dropped after the thread has written its answers ([`run_cleanups`]).
//!
//! From its first inline call on, the thread is confined like every thread that runs guests.

use std::cell::{Cell, RefCell};
use std::io;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};

/// Drops the remains of a call.
type Cleanup = Box<dyn FnOnce()>;

/// Number of cleanups that run together while calls are waiting: half of the cleanups of eight calls.
const BATCH: usize = 4;

/// Whether a thread that runs calls inline has another call to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadLoad {
    /// No call is waiting: cleaning up delays none.
    Idle,
    /// At least one call is waiting.
    Busy,
}

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(false) };
    static CLEANUPS: RefCell<Vec<Cleanup>> = const { RefCell::new(Vec::new()) };
}

/// Allows calls to run inline on the calling thread, for the rest of its life. From the first call on the thread and
/// the threads that it starts are confined and may write nowhere: the thread must need no right to write and start no
/// process.
pub fn enable() {
    ENABLED.set(true);
}

/// Runs the deferred cleanups of the calling thread, unless calls are waiting and fewer than `BATCH` are queued.
/// The owner of the thread calls this when the answers are written, and before it blocks.
pub fn run_cleanups(load: ThreadLoad) {
    let cleanups = CLEANUPS.with_borrow_mut(|cleanups| {
        let is_time = load == ThreadLoad::Idle || cleanups.len() >= BATCH;
        if is_time { std::mem::take(cleanups) } else { Vec::new() }
    });
    for cleanup in cleanups {
        cleanup();
    }
}

/// Returns whether calls may run inline on the calling thread.
pub fn is_enabled() -> bool {
    ENABLED.get()
}

/// Polls `call` once on the calling thread, as a part of `runtime`. Returns the future if it is pending; `runtime`
/// may continue to poll it. No wake-up is lost, since every later poll has its own waker.
///
/// # Errors
///
/// The pending call.
pub fn poll_once<F: Future + ?Sized>(
    mut call: Pin<Box<F>>,
    runtime: &Handle,
) -> Result<F::Output, Pin<Box<F>>> {
    let _inside = runtime.enter();
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => Err(call),
    }
}

/// Returns immediately on a thread that does not run calls inline. On other threads the surrounding future becomes
/// pending: threads of a runtime continue the future that [`poll_once`] returns.
pub async fn leave() {
    std::future::poll_fn(|context| {
        if is_enabled() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

/// Queues a cleanup for the next [`run_cleanups`] on the calling thread.
pub fn defer_cleanup(cleanup: impl FnOnce() + 'static) {
    CLEANUPS.with_borrow_mut(|cleanups| cleanups.push(Box::new(cleanup)));
}

// Threads that read calls and run short ones, one for each processor. Each is confined from its first call on, and so
// is every thread that it starts: code on these threads needs no right to write and starts no process. All work except
// short calls runs on haft's runtime.

/// Maximum number of threads: guests and the rest of haft need as many processors again.
const MOST: usize = 16;

/// Pieces of work that wait to be taken by their thread.
const WAITING: usize = 64;

/// Creates the future of a piece of work: a connection, or one call.
type Work = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The threads. A drop ends them and their work.
#[derive(Debug)]
pub struct InlineThreads(Vec<InlineThread>);

/// A thread that runs calls inline.
#[derive(Debug)]
pub struct InlineThread {
    work: mpsc::Sender<(Work, Counted)>,
    count: Arc<AtomicUsize>,
}

/// A piece of work of a thread. A drop ends it.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl InlineThreads {
    /// Starts as many threads as processors minus `spare`, at most 16, all with one name.
    ///
    /// # Errors
    ///
    /// The system has no more threads.
    pub fn start(name: &'static str, spare: usize) -> io::Result<Self> {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let count = processors.saturating_sub(spare).min(MOST);
        (0..count).map(|_| InlineThread::start(name)).collect::<io::Result<Vec<_>>>().map(Self)
    }

    /// Returns the thread that runs the least, or the first of those.
    pub fn least_busy(&self) -> Option<&InlineThread> {
        // An ended thread runs nothing, and would always have the least work.
        self.0.iter().filter(|thread| !thread.work.is_closed()).min_by_key(|thread| thread.running())
    }

    /// Runs a piece of work on the thread with the least work ([`InlineThread::run`]).
    pub async fn run<F>(&self, work: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(thread) = self.least_busy() else {
            return tracing::error!("work is dropped: every thread for it has ended, a bug in haft");
        };
        thread.run(work).await;
    }
}

impl InlineThread {
    /// Starts a thread. A drop ends the thread and its work.
    ///
    /// # Errors
    ///
    /// The system has no more threads.
    pub fn start(name: &'static str) -> io::Result<Self> {
        let (work, mut waiting) = mpsc::channel::<(Work, Counted)>(WAITING);
        let runtime = Builder::new_current_thread()
            .enable_all()
            // Runs the cleanups before the thread blocks, so that all answers are written.
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

    /// Returns the number of pieces of work that have not ended.
    pub fn running(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Runs one future, created on the thread by `work`. Waits while the queue is full.
    pub async fn run<F>(&self, work: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.count.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(self.count.clone());
        if self.work.send((Box::new(|| Box::pin(work())), counted)).await.is_err() {
            tracing::error!("work is dropped: its thread has ended, a bug in haft");
        }
    }

    /// Like [`Self::run`], but returns the output; `None` if the thread ended before.
    pub async fn output<F>(&self, work: impl FnOnce() -> F + Send + 'static) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (sender, output) = oneshot::channel();
        let work = async move || {
            // A dropped receiver means that the output is not needed.
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// Defers one cleanup per call, and runs the cleanups with `load`. Returns the number that ran.
    fn cleanups_run(calls: usize, load: ThreadLoad) -> usize {
        let ran = Rc::new(Cell::new(0));
        for _ in 0..calls {
            let ran = ran.clone();
            defer_cleanup(move || ran.set(ran.get() + 1));
        }
        run_cleanups(load);
        let first = ran.get();
        run_cleanups(ThreadLoad::Idle);
        assert_eq!(ran.get(), calls, "every cleanup runs, and runs once");
        first
    }

    #[test]
    fn cleanups_run_when_the_thread_is_idle_or_a_batch_is_full() {
        assert_eq!(cleanups_run(2, ThreadLoad::Idle), 2);
        assert_eq!(cleanups_run(BATCH - 1, ThreadLoad::Busy), 0, "the batch is not full");
        assert_eq!(cleanups_run(BATCH, ThreadLoad::Busy), BATCH);
    }
}
