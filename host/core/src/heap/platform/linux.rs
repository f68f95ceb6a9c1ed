//! Linux: the pages of files that are mapped.
#![expect(unsafe_code, reason = "a library call, which says why it is sound")]

/// Drops the pages of this program's code, which the kernel reads again where they are needed.
pub(super) fn let_go_of_code() {
    for (start, end) in code() {
        // SAFETY: these are pages of files that nothing was written to, so that no value changes.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
}

/// Returns where files are mapped to be executed, and where the beginning of this program is mapped: its constants and
/// what only its loading needed.
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
