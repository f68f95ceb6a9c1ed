//! The waits of tests: for a condition, never for a time. A test about time itself belongs in `tests/slow`.
//!
//! The only bound is far above the need of a busy machine: a test that reaches it hangs. No test judges whether a
//! condition is early or late.

use std::future::Future;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Time limit of a wait: a condition that does not hold by then never will.
pub(crate) const HANG: Duration = Duration::from_mins(5);

/// The pause between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `condition` holds. `what` describes the condition in the message of a failing test.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    until_some(what, || condition().then_some(()));
}

/// Waits until `look` finds a value, and returns the value.
#[track_caller]
pub(crate) fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < HANG, "never: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// [`until`] for a test whose other tasks run on the current thread.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_some(what, async || condition().then_some(())).await;
}

/// [`until_some`] for a test whose other tasks run on the current thread, or whose check is a future.
pub(crate) async fn eventually_some<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = within(what, look()).await {
            return found;
        }
        assert!(begun.elapsed() < HANG, "never: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// The output of a future that has to end.
pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    let Ok(output) = tokio::time::timeout(HANG, future).await else { panic!("never: {what}") };
    output
}

/// The status of a child that ends by itself.
#[track_caller]
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    until_some("the child ends", || child.try_wait().unwrap())
}
