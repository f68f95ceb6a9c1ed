//! Measures files for quotas. Follows no link.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// Limit on the measured entries of a directory tree; more than any quota permits.
const MAX_ENTRIES: u64 = 1 << 24;

/// Bytes that are added for each file, and counted for each directory or link: a block.
const BLOCK: u64 = 4096;

/// Returns the bytes of the entries below `directory`, as a quota counts them, with a block for every entry.
/// Does not follow links.
pub(crate) fn size_of(directory: &Path) -> io::Result<u64> {
    let (mut bytes, mut seen, mut work) = (0_u64, 0_u64, vec![directory.to_owned()]);
    while let Some(directory) = work.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // The entry was removed during the walk.
            let Ok(metadata) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(cost(&metadata));
            seen += 1;
            if metadata.is_dir() {
                work.push(entry.path());
            }
            if seen > MAX_ENTRIES {
                return Err(io::Error::other("too many files to be counted"));
            }
        }
    }
    Ok(bytes)
}

/// Returns the bytes that one entry counts.
fn cost(metadata: &Metadata) -> u64 {
    if metadata.is_file() { metadata.len().saturating_add(BLOCK) } else { BLOCK }
}
