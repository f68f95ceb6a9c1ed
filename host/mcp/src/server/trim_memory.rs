//! Releases the resident pages of haft's own code, most of which only starting and the first call need.
//! The kernel would reclaim them by itself, but only under memory pressure; `tests/serve/memory.rs` holds the figure.
//! Where there is no `/proc` to list them nothing is released.

#![expect(unsafe_code, reason = "one system call, which says why it is sound")]

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;

/// Unmaps the code and the constants of this program from memory, if nothing in them was ever changed. What
/// is needed again is mapped again from the file, at the cost of a page fault each 64 KiB.
pub(super) fn release_code_pages() {
    let own = File::open("/proc/self/smaps").and_then(|smaps| {
        let within = release_code_pages as *const () as usize;
        unchanged(BufReader::new(smaps), within)
    });
    for range in own.unwrap_or_default() {
        // SAFETY: the mapping is one of the file that this code is in, cannot be written, and none of its pages
        // differs from the file: what is read from it after this is what was read before.
        let done = unsafe { libc::madvise(range.start as *mut _, range.len(), libc::MADV_DONTNEED) };
        tracing::debug!(bytes = range.len(), done, "code pages released");
    }
}

/// A mapping of a file.
struct Mapping {
    range: Range<usize>,
    /// Device and inode.
    file: String,
    is_read_only: bool,
    /// How many of `Anonymous` and `Swap` are zero: two when every page is the file's own.
    zero_counts: usize,
}

impl Mapping {
    /// The mapping that a line begins, as `00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/haft`
    /// (`proc_pid_maps(5)`).
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let [start, end] = [start, end].map(|address| usize::from_str_radix(address, 16).ok());
        let is_read_only = matches!(fields.next()?, "r-xp" | "r--p");
        let _offset = fields.next()?;
        let file = format!("{} {}", fields.next()?, fields.next()?);
        Some(Self { range: start?..end?, file, is_read_only, zero_counts: 0 })
    }

    /// Reads one more line about the mapping, as `Anonymous:   12 kB`.
    fn read_field(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        let is_one = matches!(words.next(), Some("Anonymous:" | "Swap:"));
        self.zero_counts += usize::from(is_one && words.next() == Some("0"));
    }

    fn is_unchanged(&self) -> bool {
        self.is_read_only && self.zero_counts == 2
    }
}

/// The mappings, of the file that is mapped at `within`, that are as the file is and cannot be written.
fn unchanged(smaps: impl BufRead, within: usize) -> io::Result<Vec<Range<usize>>> {
    let mut file: Vec<Mapping> = Vec::new();
    for line in smaps.lines() {
        let line = line?;
        let Some(mapping) = Mapping::parse(&line) else {
            file.iter_mut().last().into_iter().for_each(|last| last.read_field(&line));
            continue;
        };
        // The mappings of a program are neighbours.
        if file.last().is_some_and(|last| last.file != mapping.file) {
            if file.iter().any(|one| one.range.contains(&within)) {
                break;
            }
            file.clear();
        }
        file.push(mapping);
    }
    let is_own = file.iter().any(|one| one.range.contains(&within));
    let unchanged = file.into_iter().filter(|one| is_own && one.is_unchanged());
    Ok(unchanged.map(|one| one.range).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
00100000-00200000 r--p 00000000 fe:00 7    /usr/lib/other.so
Anonymous:             0 kB
Swap:                  0 kB
00400000-00500000 r--p 00000000 fe:00 11   /usr/bin/with space
Rss:                 900 kB
Private_Dirty:         0 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd mr mw me
00500000-00900000 r-xp 00100000 fe:00 11   /usr/bin/with space
Private_Dirty:         0 kB
Anonymous:             0 kB
Swap:                  0 kB
00900000-00a00000 r--p 00500000 fe:00 11   /usr/bin/with space
Private_Dirty:         0 kB
Anonymous:          1024 kB
Swap:                  0 kB
00a00000-00b00000 rw-p 00600000 fe:00 11   /usr/bin/with space
Anonymous:             0 kB
Swap:                  0 kB
00b00000-00c00000 rw-p 00000000 00:00 0
Anonymous:           100 kB
Swap:                  0 kB
00d00000-00e00000 r-xp 00100000 fe:00 12   /usr/lib/more.so
Anonymous:             0 kB
Swap:                  0 kB
";

    #[test]
    fn only_what_is_the_file_s_is_given_back() {
        let unchanged = |text: &str, within| {
            let ranges = unchanged(text.as_bytes(), within).unwrap();
            ranges.iter().map(|range| (range.start, range.end)).collect::<Vec<_>>()
        };
        assert_eq!(unchanged(SMAPS, 0x50_1000), [(0x40_0000, 0x50_0000), (0x50_0000, 0x90_0000)]);
        // A debugger's breakpoint is a page that was changed.
        let stopped = SMAPS.replace(
            "Anonymous:             0 kB\nSwap:                  0 kB\n00900000",
            "Anonymous:             4 kB\nSwap:                  0 kB\n00900000",
        );
        assert_eq!(unchanged(&stopped, 0x50_1000), [(0x40_0000, 0x50_0000)]);
        let swapped = stopped.replace("4 kB\nSwap:                  0", "0 kB\nSwap:                  4");
        assert_eq!(unchanged(&swapped, 0x50_1000), [(0x40_0000, 0x50_0000)]);
        assert!(
            unchanged(&SMAPS.replace("Swap", "Other"), 0x50_1000).is_empty(),
            "a missing field counts as changed"
        );
        assert_eq!(unchanged(SMAPS, 0xd0_0000), [(0xd0_0000, 0xe0_0000)], "the last of all");
        assert!(unchanged(SMAPS, 0xf0_0000).is_empty(), "nobody's");
        assert!(unchanged("no such thing\n", 0).is_empty());
    }

    /// Bytes of this very program's code that are in memory, by the kernel's count.
    fn resident() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssFile:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
    }

    #[test]
    fn the_code_is_given_back_and_runs_on() {
        let before = resident();
        release_code_pages();
        let after = resident();
        assert!(after < before, "{before} bytes before, {after} after");
        assert_eq!(format!("{:?}", Mapping::parse("1-2 r-xp 0 0:0 1").unwrap().range), "1..2");
    }
}
