//! macOS: none.

use std::path::PathBuf;

/// File systems have no other names here for what is mounted once.
pub(in crate::confine::policy) fn with_aliases(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths
}
