//! The seals of a child: the identities of the files and directories that its mounts cover. A mount covers one
//! file, and the kernel removes it in the child when another file replaces that file outside.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haft_core::grant::Root;

/// The identities of sealed paths at one moment.
#[derive(Clone, Debug)]
pub(super) struct Seals {
    roots: Vec<Root>,
    found: Vec<(PathBuf, Option<Identity>)>,
}

impl Seals {
    /// Returns the current identities of `roots`.
    pub(super) fn of(roots: Vec<Root>) -> Self {
        Self { found: found(&roots), roots }
    }

    /// Returns the first path whose identity has changed.
    pub(super) fn broken(&self) -> Option<PathBuf> {
        let now = found(&self.roots);
        if now == self.found {
            return None;
        }
        let other = now.iter().find(|entry| !self.found.contains(entry));
        let gone = || self.found.iter().find(|entry| !now.contains(entry));
        other.or_else(gone).map(|(path, _)| path.clone())
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.found.iter().map(|(path, _)| &**path)
    }
}

fn found(roots: &[Root]) -> Vec<(PathBuf, Option<Identity>)> {
    let paths = roots.iter().flat_map(meant);
    paths.map(|path| (path.clone(), identity(&path))).collect()
}

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
