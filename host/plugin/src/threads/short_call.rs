//! Classifies tools by the duration of their calls: the next call of a tool with short calls may begin on the
//! reading thread.

use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::threads::writable;
use haft_core::grant::{Grant, Reach};
use haft_core::sync::Lock;

/// The longest call that counts as short. Many times what such a call computes, and too short for waiting callers to
/// notice. An unoptimised build of haft needs more.
const SHORT_CALL: Duration = Duration::from_millis(if cfg!(debug_assertions) { 10 } else { 1 });

/// Maximum duration of a short call that waits for its processor or a disk.
const LONGEST: Duration = SHORT_CALL.saturating_mul(50);

/// Returns the output of a call, and whether it was short. Other threads may use the processor in between: for a
/// call that does not wait, its processor time counts. Otherwise calls would count as long on a busy machine,
/// because long calls run on separate threads, which delay each other.
pub(crate) async fn measure<F: Future>(call: F) -> (F::Output, bool) {
    let (begun, used, mut polls) = (Instant::now(), processor_time(), 0_usize);
    let mut call = pin!(call);
    let output = std::future::poll_fn(|cx| {
        polls += 1;
        call.as_mut().poll(cx)
    });
    let output = output.await;
    // A call that is polled once began and ended on one thread.
    let computed = || polls == 1 && processor_time().saturating_sub(used) < SHORT_CALL;
    let took = begun.elapsed();
    (output, took < SHORT_CALL || took < LONGEST && computed())
}

#[derive(Debug)]
pub(crate) struct LastCalls {
    left: AtomicU8,
    read: Lock<Read>,
}

/// The directories that calls might read.
#[derive(Debug)]
struct Read {
    directories: Reach,
    /// Whether the directories, and the targets of paths that calls followed, are on this machine.
    is_local: bool,
}

impl Default for LastCalls {
    fn default() -> Self {
        let read = Read { directories: Reach::Roots(Vec::new()), is_local: true };
        Self { left: AtomicU8::default(), read: Lock::new(read) }
    }
}

impl LastCalls {
    /// Number of long calls after short ones that are ignored: any call may be long on a busy machine, and calls
    /// that are read meanwhile would all run on separate threads, where they delay each other.
    const FORGIVEN: u8 = 1;

    /// Records whether a call was short. A call that another machine may delay next time is not recorded.
    pub(crate) fn note(&self, is_short: bool, grant: &Grant) {
        if !is_short {
            let less = |left: u8| left.checked_sub(1);
            // Without short calls there is nothing to subtract.
            let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        } else if self.is_local(grant) {
            self.left.store(1 + Self::FORGIVEN, Ordering::Relaxed);
        }
    }

    /// Returns whether the next call with these rights is likely to be short.
    pub(crate) fn were_short(&self, grant: &Grant) -> bool {
        let has_short = self.left.load(Ordering::Relaxed) > 0;
        let read = self.read.lock();
        has_short && read.is_local && read.directories == grant.readable()
    }

    /// Records that a call with these rights followed a path to another file system, which the next call will
    /// probably do too.
    pub(crate) fn led_elsewhere(&self, grant: &Grant) {
        *self.read.lock() = Read { directories: grant.readable(), is_local: false };
    }

    /// Returns whether all directories of a grant are local. Opens them if the grant changed.
    fn is_local(&self, grant: &Grant) -> bool {
        let directories = grant.readable();
        {
            let read = self.read.lock();
            if read.directories == directories {
                return read.is_local;
            }
        }
        let is_local = writable::is_local(&directories);
        *self.read.lock() = Read { directories, is_local };
        is_local
    }
}

/// The processor time that a guest may use of the reading thread. Time of other threads on the processor does not
/// count, up to [`LONGEST`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct InlineTime {
    /// The end, in the thread's processor time.
    end: Duration,
    begun: Instant,
}

impl InlineTime {
    /// Returns the limit of a call that begins now, on this thread.
    pub(crate) fn from_now() -> Self {
        Self { end: processor_time().saturating_add(SHORT_CALL), begun: Instant::now() }
    }

    /// Returns whether the time is used up. Called on the thread that began the call.
    pub(crate) fn is_over(&self) -> bool {
        processor_time() >= self.end || self.begun.elapsed() >= LONGEST
    }
}

fn processor_time() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) =
        (u64::try_from(tv_sec).unwrap_or_default(), u32::try_from(tv_nsec).unwrap_or_default());
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use haft_core::grant::Root;

    #[test]
    fn one_long_call_is_forgiven() {
        let calls = LastCalls::default();
        let grant = Grant::none();
        assert!(!calls.were_short(&grant), "nothing is known yet");
        for (is_short, were_short) in
            [(false, false), (true, true), (false, true), (false, false), (false, false)]
        {
            calls.note(is_short, &grant);
            assert_eq!(calls.were_short(&grant), were_short);
        }
    }

    #[test]
    fn short_calls_with_other_directories_say_nothing() {
        let (calls, directory) = (LastCalls::default(), tempfile::tempdir().unwrap());
        let root = |path: &str| Root::resolve(Path::new("/"), Path::new(path)).unwrap();
        let other = Grant::none().with_read(root(directory.path().to_str().unwrap()));
        calls.note(true, &Grant::none());
        assert!(!calls.were_short(&other));
        calls.note(true, &other);
        assert_eq!(calls.were_short(&other), writable::is_local(&other.readable()));
        let far = Grant::none().with_read(root("/dev/fd"));
        calls.note(true, &far);
        assert!(!calls.were_short(&far), "of a file system that is not known to be quick");
    }

    /// Computes for longer than a short call does.
    fn compute() {
        let begun = processor_time();
        while processor_time().saturating_sub(begun) <= SHORT_CALL {}
    }

    /// Waits while another thread computes, without a turn of the processor.
    fn preempted() {
        std::thread::spawn(compute).join().unwrap();
    }

    #[test]
    fn time_that_others_had_the_processor_is_no_inline_time() {
        let time = InlineTime::from_now();
        preempted();
        assert!(!time.is_over());
        while processor_time() < time.end {}
        assert!(time.is_over());
    }

    #[tokio::test]
    async fn time_that_others_had_the_processor_makes_no_call_long() {
        assert!(measure(async { preempted() }).await.1, "the thread used no time of the processor");
        assert!(!measure(async { compute() }).await.1);
        let waiting = measure(async { tokio::task::spawn_blocking(compute).await.unwrap() });
        assert!(!waiting.await.1, "the next one would wait too");
        assert!(measure(std::future::ready(())).await.1);
    }
}
