//! macOS has no unnamed files.

use std::fs::File;
use std::io;
use std::path::Path;

/// Returns `None`.
pub(super) fn unnamed(_: &Path) -> Option<File> {
    None
}

/// Never called, since [`unnamed`] returns no file.
pub(super) fn give_name(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
