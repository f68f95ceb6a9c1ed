//! macOS: programs by path.

use std::fs::File;
use std::path::{Path, PathBuf};

/// Returns this program. Its file must not have been replaced since its start.
pub(super) fn this_program() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// Returns the program at `path`: an open file cannot be executed.
pub(super) fn opened_program(_file: &File, path: &Path) -> PathBuf {
    path.to_owned()
}
