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

/// Drops what a call left.
type Cleanup = Box<dyn FnOnce()>;

/// Cleanups that are run together while calls are waiting: half of what eight calls leave.
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

/// Allows calls to run inline on the calling thread, for the rest of its life. From the first one on the thread is
/// confined and may write nowhere, as are threads that it starts: it must need no right to write and start no process.
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
pub fn defer_cleanup(cleanup: impl FnOnce() + 'static) {
    CLEANUPS.with_borrow_mut(|cleanups| cleanups.push(Box::new(cleanup)));
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// Defers one cleanup per call, and runs them with `load`; how many ran.
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
