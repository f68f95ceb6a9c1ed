//! Per-thread state for running short calls inline: on the thread that reads calls, without waking another one. The
//! thread opts in once ([`enable`]); what a finished call leaves to drop is queued on the thread ([`defer_cleanup`])
//! and run when the thread has written its answers ([`run_cleanups`]).
//!
//! A thread that opted in is confined from its first inline call on, as every thread that runs guests is, and stays so.

mod threads;

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;

pub use self::threads::{InlineThread, InlineThreads};

/// Drops what a call left, on this thread or, where the thread is busy, on another one.
type Cleanup = Box<dyn FnOnce(ThreadLoad)>;

/// Cleanups that are run together while calls are waiting: half of what eight calls leave.
const BATCH: usize = 4;

/// Whether a thread that runs calls inline has another call to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadLoad {
    /// No call is waiting: cleaning up delays none.
    Idle,
    /// At least one call is waiting: cleaning up belongs on another thread.
    Busy,
    /// The same where every processor has a thread like this one: another thread would only take the processor from
    /// them, and wait for their heaps.
    Saturated,
}

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(false) };
    /// What it means for this thread to be busy.
    static BUSY: Cell<ThreadLoad> = const { Cell::new(ThreadLoad::Busy) };
    static CLEANUPS: RefCell<Vec<Cleanup>> = const { RefCell::new(Vec::new()) };
}

/// Allows calls to run inline on the calling thread, for the rest of its life. From the first one on the thread is
/// confined and may write nowhere, as are threads that it starts: it must need no right to write and start no process.
pub fn enable() {
    ENABLED.set(true);
}

/// The same for one of as many threads as there are processors.
pub fn enable_on_every_processor() {
    BUSY.set(ThreadLoad::Saturated);
    enable();
}

/// Runs the deferred cleanups of the calling thread, unless calls are waiting and fewer than `BATCH` are queued.
/// The owner of the thread calls this when the answers are written, and before it blocks.
pub fn run_cleanups(load: ThreadLoad) {
    let cleanups = CLEANUPS.with_borrow_mut(|cleanups| {
        let is_time = load == ThreadLoad::Idle || cleanups.len() >= BATCH;
        if is_time { std::mem::take(cleanups) } else { Vec::new() }
    });
    // A client that made several calls at once is likely to make more soon.
    let load = if cleanups.len() > 1 || load != ThreadLoad::Idle { BUSY.get() } else { load };
    for cleanup in cleanups {
        cleanup(load);
    }
}

/// Whether calls may run inline on the calling thread.
pub fn is_enabled() -> bool {
    ENABLED.get()
}

/// Polls `call` once on the calling thread, as a part of `runtime`. What is left of it comes back where that does not end
/// it: `runtime` may poll it on. No wake-up is lost, since every later poll brings a waker of its own.
///
/// # Errors
///
/// The call, where it waits.
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

/// Ends where the calling thread does not run calls inline. On one that does, the future around this waits: what
/// [`poll_once`] gives back is polled on by a runtime's own threads.
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
pub fn defer_cleanup(cleanup: impl FnOnce(ThreadLoad) + 'static) {
    CLEANUPS.with_borrow_mut(|cleanups| cleanups.push(Box::new(cleanup)));
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// Defers one cleanup per call, runs them with `load`, and returns the load that each one that ran was given.
    fn loads_of_cleanups(calls: usize, load: ThreadLoad) -> Vec<ThreadLoad> {
        let loads = Rc::new(RefCell::new(Vec::new()));
        for _ in 0..calls {
            let loads = loads.clone();
            defer_cleanup(move |load| loads.borrow_mut().push(load));
        }
        run_cleanups(load);
        let first = loads.take();
        run_cleanups(ThreadLoad::Idle);
        assert_eq!(first.len() + loads.take().len(), calls, "every cleanup runs, and runs once");
        first
    }

    #[test]
    fn cleanups_run_when_the_thread_is_idle_or_a_batch_is_full() {
        assert_eq!(loads_of_cleanups(1, ThreadLoad::Idle), [ThreadLoad::Idle]);
        assert_eq!(loads_of_cleanups(2, ThreadLoad::Idle), [ThreadLoad::Busy; 2], "more calls come soon");
        assert_eq!(loads_of_cleanups(BATCH - 1, ThreadLoad::Busy), [], "the batch is not full");
        assert_eq!(loads_of_cleanups(BATCH, ThreadLoad::Busy), [ThreadLoad::Busy; BATCH]);
        enable_on_every_processor();
        assert_eq!(loads_of_cleanups(1, ThreadLoad::Idle), [ThreadLoad::Idle]);
        assert_eq!(loads_of_cleanups(2, ThreadLoad::Idle), [ThreadLoad::Saturated; 2]);
        assert_eq!(loads_of_cleanups(BATCH, ThreadLoad::Busy), [ThreadLoad::Saturated; BATCH]);
    }
}
