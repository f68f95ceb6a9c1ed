//! Limits how much memory this process keeps without a use for it: freed memory of glibc's allocator, and code that ran once.

#![cfg_attr(target_env = "gnu", expect(unsafe_code, reason = "a library call, which says why it is sound"))]

#[cfg_attr(target_os = "linux", path = "heap/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "heap/platform/macos.rs")]
mod platform;

/// The size in bytes from which a block has its own pages, which are returned when it is freed: the large blocks
/// are arguments and answers. glibc starts with 128 KiB, raises the limit to 32 MiB as blocks are freed, and keeps
/// as much again in the heap of every thread.
#[cfg(target_env = "gnu")]
const OWN_PAGES: i32 = 1 << 20;

/// The number of heaps that threads share. glibc makes eight for every processor; a guest's thread rarely waits for
/// another.
#[cfg(target_env = "gnu")]
const HEAPS: i32 = 8;

/// Configures the allocator of the whole process. For haft's own programs; a program that embeds haft decides for
/// itself.
pub fn settle() {
    #[cfg(target_env = "gnu")]
    for (setting, value) in
        [(libc::M_MMAP_THRESHOLD, OWN_PAGES), (libc::M_TRIM_THRESHOLD, OWN_PAGES), (libc::M_ARENA_MAX, HEAPS)]
    {
        // SAFETY: `mallopt(3)` takes two numbers and changes no allocated block.
        let is_set = unsafe { libc::mallopt(setting, value) };
        tracing::debug!(setting, value, is_set, "allocator");
    }
}

/// Drops what of this program's code is in memory: for a process that only waits from now on.
pub fn let_go_of_code() {
    platform::let_go_of_code();
}
