//! Which file or directory a path means at one moment.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haft_core::grant::Root;

/// Device and inode.
pub(super) type Identity = (u64, u64);

/// The paths at which `root` is sealed: where it was when it was resolved, and where a link to it leads now.
pub(super) fn meant(root: &Root) -> impl Iterator<Item = PathBuf> {
    let now = Some(root.path()).filter(|path| *path != root.real()).and_then(|path| path.canonicalize().ok());
    std::iter::once(root.real().to_owned()).chain(now.filter(|now| now != root.real()))
}

/// What is at `path` now. A link there is none of what was meant.
pub(super) fn identity(path: &Path) -> Option<Identity> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
