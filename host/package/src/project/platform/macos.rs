//! macOS has no files without a name.

use std::fs::File;
use std::io;
use std::path::Path;

/// There is none.
pub(in crate::project) fn unnamed(_: &Path) -> Option<File> {
    None
}

/// Never asked for, as [`unnamed`] makes no file.
pub(in crate::project) fn give_name(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
