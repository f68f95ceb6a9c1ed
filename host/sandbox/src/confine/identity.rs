//! The identity of the file or directory at a path.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haft_core::grant::Root;

/// Device and inode.
pub(super) type Identity = (u64, u64);

/// Returns the paths at which `root` is sealed: its path when it was resolved, and the current target of a link
/// to it.
pub(super) fn meant(root: &Root) -> impl Iterator<Item = PathBuf> {
    let now = Some(root.path()).filter(|path| *path != root.real()).and_then(|path| path.canonicalize().ok());
    std::iter::once(root.real().to_owned()).chain(now.filter(|now| now != root.real()))
}

/// Returns the identity of the object at `path`; a link counts as another object.
pub(super) fn identity(path: &Path) -> Option<Identity> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
