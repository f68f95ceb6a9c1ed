//! Linux: programs by their links in `/proc`.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Returns this program, even if its file was replaced since its start.
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on macOS, where it may fail")]
pub(super) fn this_program() -> Option<PathBuf> {
    Some("/proc/self/exe".into())
}

/// Returns the opened program, even if its path was replaced.
pub(super) fn opened_program(file: &File, _path: &Path) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}
