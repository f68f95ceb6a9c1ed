//! The heap, where its allocator has to be told what to keep and when it is worth giving memory back.

#![cfg_attr(
    any(target_env = "gnu", target_env = "musl"),
    expect(unsafe_code, reason = "library calls, which say why they are sound")
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of a block that has pages of its own, which go back when it is freed: the large ones are
/// arguments and answers. glibc begins with 128 KiB and goes up to 32 MiB by itself as blocks are freed, and
/// keeps as much again in the heap of every thread.
#[cfg(target_env = "gnu")]
const OWN_PAGES: i32 = 1 << 20;

/// Heaps that threads share. glibc makes eight for every processor; a guest's thread rarely waits for
/// another's.
#[cfg(target_env = "gnu")]
const HEAPS: i32 = 8;

/// How long after a call what it freed is given back, together with what others freed meanwhile. It takes some
/// milliseconds.
pub const EVERY: Duration = Duration::from_secs(5);

/// Settles for the whole process how much freed memory the allocator keeps. For haft's own programs; a program that
/// embeds haft decides for itself.
pub fn settle() {
    #[cfg(target_env = "gnu")]
    for (setting, value) in
        [(libc::M_MMAP_THRESHOLD, OWN_PAGES), (libc::M_TRIM_THRESHOLD, OWN_PAGES), (libc::M_ARENA_MAX, HEAPS)]
    {
        // SAFETY: `mallopt(3)` takes two numbers and changes nothing that is allocated.
        let is_set = unsafe { libc::mallopt(setting, value) };
        tracing::debug!(setting, value, is_set, "allocator");
    }
}

/// Gives what was freed back to the system. glibc keeps most of it, for each thread's own: after compiling ten
/// small components 45 MB that nothing asks for again. Takes some milliseconds.
///
/// For musl it is mimalloc that is asked, the allocator of haft there (`main.rs` of `host/haft`); where a program has
/// another one this does nothing. mimalloc gives back what the calling thread has freed and not what others have, so
/// that three times as much stays as with glibc. Elsewhere this does nothing.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: `malloc_trim(3)` touches only free memory, and may be called on any thread.
        let any = unsafe { libc::malloc_trim(0) };
        tracing::debug!(any = any == 1, "freed memory given back");
    }
    #[cfg(target_env = "musl")]
    {
        // SAFETY: `mi_collect` touches only free memory, of this thread and of nobody's, and may be called on any thread.
        unsafe { libmimalloc_sys::mi_collect(true) };
        tracing::debug!("freed memory given back");
    }
}

/// Whether memory is about to be given back.
#[derive(Default)]
pub struct Tidying(AtomicBool);

impl Tidying {
    /// Whether the caller has to give memory back: wait for [`EVERY`], then call [`begun`](Self::begun) and trim.
    pub fn is_due(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }

    /// What is freed from here on is for the next time.
    pub fn begun(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S19: what is freed after memory was given back is given back too, however soon the calls end.
    #[test]
    fn s19_whatever_is_freed_is_given_back_later() {
        let tidying = Tidying::default();
        assert_eq!([tidying.is_due(), tidying.is_due()], [true, false], "once for all that comes meanwhile");
        tidying.begun();
        assert_eq!([tidying.is_due(), tidying.is_due()], [true, false]);
    }
}
