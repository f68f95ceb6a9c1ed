//! Which calls are short: the next one of their tool may begin on the thread that reads it.

use std::pin::pin;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The longest call that counts as short. Many times what such a call computes, and too short for waiting callers to
/// notice. An unoptimised build of haft needs more.
const SHORT_CALL: Duration = Duration::from_millis(if cfg!(debug_assertions) { 10 } else { 1 });

/// What a call comes to, and whether it is short. Other threads may have the processor in between: for a call that
/// waits for nothing, what counts is the time of the processor. Otherwise calls would stay long on a busy machine, since
/// long calls run on threads of their own, which are in each other's way.
pub(crate) async fn measure<F: Future>(call: F) -> (F::Output, bool) {
    let (begun, used, mut polls) = (Instant::now(), processor_time(), 0_usize);
    let mut call = pin!(call);
    let output = std::future::poll_fn(|cx| {
        polls += 1;
        call.as_mut().poll(cx)
    });
    let output = output.await;
    // A call that is polled once began and ended on the same thread.
    let computed = || polls == 1 && processor_time().saturating_sub(used) < SHORT_CALL;
    (output, begun.elapsed() < SHORT_CALL || computed())
}

/// Of the calling thread.
fn processor_time() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) =
        (u64::try_from(tv_sec).unwrap_or_default(), u32::try_from(tv_nsec).unwrap_or_default());
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn time_that_others_had_the_processor_makes_no_call_long() {
        let preempted = measure(async { std::thread::sleep(SHORT_CALL * 2) }).await;
        assert!(preempted.1, "the thread used no time of the processor");
        let computing = measure(async {
            let begun = processor_time();
            while processor_time().saturating_sub(begun) <= SHORT_CALL {}
        });
        assert!(!computing.await.1);
        let waiting = measure(tokio::time::sleep(SHORT_CALL * 2));
        assert!(!waiting.await.1, "the next one would wait too");
        assert!(measure(std::future::ready(())).await.1);
    }
}
