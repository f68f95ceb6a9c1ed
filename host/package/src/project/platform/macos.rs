//! macOS has no files without a name.

use std::fs::File;
use std::io;
use std::path::Path;

/// There is none.
pub(super) fn unnamed(_: &Path) -> Option<File> {
    None
}

/// Never asked for, as [`unnamed`] makes no file.
pub(super) fn give_name(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
