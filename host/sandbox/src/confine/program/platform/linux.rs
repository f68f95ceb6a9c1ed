//! Linux: by what `/proc` links to.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// This program, even where its file was replaced since it was started.
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on macOS, where it may fail")]
pub(super) fn this_program() -> Option<PathBuf> {
    Some("/proc/self/exe".into())
}

/// The program that was opened, whatever has come to lie at its path.
pub(super) fn opened_program(file: &File, _path: &Path) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}
