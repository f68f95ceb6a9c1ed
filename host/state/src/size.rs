//! How much files are counted as. Follows no link.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// Entries of a directory tree that are looked at; more than any quota has room for.
const MAX_ENTRIES: u64 = 1 << 24;

/// Bytes that a file, a directory or a link counts as at least: a block.
const BLOCK: u64 = 4096;

/// Bytes that the files below `directory` take, as a quota counts them: every entry a block at
/// least. Links are not followed.
pub(crate) fn size_of(directory: &Path) -> io::Result<u64> {
    let (mut bytes, mut seen, mut work) = (0_u64, 0_u64, vec![directory.to_owned()]);
    while let Some(directory) = work.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // Removed meanwhile.
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

/// Bytes that one entry of a directory counts as.
fn cost(metadata: &Metadata) -> u64 {
    if metadata.is_file() { metadata.len().saturating_add(BLOCK) } else { BLOCK }
}
