//! What a child was sealed against: the identities of the files and directories that its mounts cover. A mount covers
//! one file, and the kernel takes it away in the child when another file is put in that one's place outside.

use std::path::{Path, PathBuf};

use super::identity::{Identity, identity, meant};
use haft_core::grant::Root;

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

fn found(roots: &[Root]) -> Vec<(PathBuf, Option<Identity>)> {
    let paths = roots.iter().flat_map(meant);
    paths.map(|path| (path.clone(), identity(&path))).collect()
}
