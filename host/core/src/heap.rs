//! How much freed memory glibc's allocator keeps.

#![cfg_attr(target_env = "gnu", expect(unsafe_code, reason = "a library call, which says why it is sound"))]

/// Bytes of a block that has pages of its own, which go back when it is freed: the large ones are
/// arguments and answers. glibc begins with 128 KiB and goes up to 32 MiB by itself as blocks are freed, and
/// keeps as much again in the heap of every thread.
#[cfg(target_env = "gnu")]
const OWN_PAGES: i32 = 1 << 20;

/// Heaps that threads share. glibc makes eight for every processor; a guest's thread rarely waits for
/// another's.
#[cfg(target_env = "gnu")]
const HEAPS: i32 = 8;

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
