//! What a child was sealed against: the identities of the files and directories that its mounts cover. A mount covers
//! one file, and the kernel takes it away in the child when another file is put in that one's place outside.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haft_core::grant::Root;

/// Device and inode.
pub(super) type Identity = (u64, u64);

/// What sealed paths meant at one moment.
#[derive(Clone, Debug)]
pub(super) struct Seals {
    roots: Vec<Root>,
    found: Vec<(PathBuf, Option<Identity>)>,
}

impl Seals {
    /// What is at `roots` now.
    pub(super) fn of(roots: Vec<Root>) -> Self {
        Self { found: found(&roots), roots }
    }

    /// The first path at which something else is now than was then.
    pub(super) fn broken(&self) -> Option<PathBuf> {
        let now = found(&self.roots);
        if now == self.found {
            return None;
        }
        let other = now.iter().find(|entry| !self.found.contains(entry));
        let gone = || self.found.iter().find(|entry| !now.contains(entry));
        other.or_else(gone).map(|(path, _)| path.clone())
    }

    /// The paths of all that is sealed.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.found.iter().map(|(path, _)| &**path)
    }
}

/// The paths at which `root` is sealed: where it was when it was resolved, and where a link to it leads now.
pub(super) fn meant(root: &Root) -> impl Iterator<Item = PathBuf> {
    let now = Some(root.path()).filter(|path| *path != root.real()).and_then(|path| path.canonicalize().ok());
    std::iter::once(root.real().to_owned()).chain(now.filter(|now| now != root.real()))
}

fn found(roots: &[Root]) -> Vec<(PathBuf, Option<Identity>)> {
    let paths = roots.iter().flat_map(meant);
    paths.map(|path| (path.clone(), identity(&path))).collect()
}

/// What is at `path` now. A link there is none of what was meant.
pub(super) fn identity(path: &Path) -> Option<Identity> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
