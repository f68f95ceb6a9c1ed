//! The heap, where its allocator has to be told when it is worth giving memory back.

#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "one library call, which says why it is sound")
)]

/// Gives what was freed back to the system. glibc keeps most of it, for each thread's own: after compiling ten
/// small components 45 MB that nothing asks for again. Takes some milliseconds; elsewhere nothing.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `malloc_trim(3)` touches only what nobody has allocated, and may be called on any thread.
        let any = unsafe { libc::malloc_trim(0) };
        tracing::debug!(any = any == 1, "freed memory given back");
    }
}
