//! Limits the unused memory that this process keeps: freed memory of glibc's allocator, and code that ran once.

#![cfg_attr(target_env = "gnu", expect(unsafe_code, reason = "a library call, which says why it is sound"))]

/// The size in bytes from which a block has its own pages, which are returned when it is freed: the large blocks
/// are arguments and answers. glibc starts with 128 KiB, raises the limit to 32 MiB as blocks are freed, and keeps
/// as much again in the heap of every thread.
#[cfg(target_env = "gnu")]
const OWN_PAGES: i32 = 1 << 20;

/// The number of heaps that threads share. glibc makes eight for every processor; a guest's thread rarely waits for
/// another.
#[cfg(target_env = "gnu")]
const HEAPS: i32 = 8;

/// Configures the allocator of the process. For haft's own programs; a program that embeds haft has its own
/// settings.
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

/// Drops the resident code of this program, for a process that only waits from now on. The kernel reads the pages
/// again at their next use.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a library call, which says why it is sound")]
pub fn let_go_of_code() {
    for (start, end) in code() {
        // SAFETY: these are pages of files that nothing was written to, so that no value changes.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
}

/// Does nothing: macOS reclaims unused pages itself.
#[cfg(target_os = "macos")]
pub fn let_go_of_code() {}

/// Returns the addresses of executable mappings, and of the beginning of this program: its constants and its
/// load-time data.
#[cfg(target_os = "linux")]
fn code() -> Vec<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let own = std::env::current_exe().unwrap_or_default();
    let range = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let mut fields = rest.split_whitespace();
        let (rights, offset) = (fields.next()?, fields.next()?);
        let is_code = rights == "r-xp" && line.contains('/');
        let is_beginning = rights == "r--p" && offset.bytes().all(|digit| digit == b'0');
        let (start, end) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let is_own = line.ends_with(own.to_str()?);
        (is_code || (is_beginning && is_own)).then_some((address(start)?, address(end)?))
    };
    maps.lines().filter_map(range).collect()
}
