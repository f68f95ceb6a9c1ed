//! macOS: by its path.

use std::fs::File;
use std::path::{Path, PathBuf};

/// This program. Its file must not have been replaced since.
pub(super) fn this_program() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// The program at `path`: an open file cannot be started.
pub(super) fn opened_program(_file: &File, path: &Path) -> PathBuf {
    path.to_owned()
}
