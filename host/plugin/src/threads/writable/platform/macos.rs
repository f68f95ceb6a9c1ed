//! macOS: by device and inode.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use crate::threads::writable::DirectoryId;

/// Nothing is known of it.
pub(super) fn is_local(_: &File) -> bool {
    false
}

/// What an open directory is, whatever its name.
pub(super) fn identity(directory: &File) -> io::Result<DirectoryId> {
    let metadata = directory.metadata()?;
    Ok(DirectoryId { device: metadata.dev(), inode: metadata.ino(), mount: 0 })
}
