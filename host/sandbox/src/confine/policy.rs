//! What one child may do, as the helper is told it: a [`Grant`] and the layers that are to
//! enforce it, with every path resolved. It refuses what the layers at hand cannot keep.

#[cfg_attr(target_os = "linux", path = "policy/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "policy/platform/macos.rs")]
mod platform;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use self::platform::with_aliases;
use super::identity::meant;
use super::layers::Layers;
use haft_core::grant::{Grant, Reach, Root, Why};

/// The order to confine a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Policy {
    pub(super) layers: Layers,
    /// Directories that may be written; `None` for everything.
    pub(super) write: Option<Vec<PathBuf>>,
    /// Directories that may be read; `None` for everything.
    pub(super) read: Option<Vec<PathBuf>>,
    /// What is neither read nor written.
    pub(super) hidden: Vec<PathBuf>,
    /// What is not written.
    pub(super) fixed: Vec<PathBuf>,
    pub(super) network: bool,
    pub(super) unix_sockets: bool,
    /// Whether it stays in the session of the terminal that it was started at.
    pub(super) terminal: bool,
    /// Open files that the child may have, unless it asks for more.
    pub(super) open_files: Option<u64>,
}

impl Policy {
    /// What `grant` means where `layers` enforce it.
    pub(super) fn new(grant: &Grant, layers: Layers) -> Self {
        Self {
            layers,
            write: with_caches(grant, outermost(grant.writable())),
            read: with_caches(grant, outermost(&grant.readable())),
            hidden: with_aliases(grant.hidden().flat_map(meant).collect()),
            fixed: with_aliases(grant.fixed().flat_map(meant).collect()),
            network: grant.network(),
            unix_sockets: grant.unix_sockets(),
            terminal: false,
            open_files: haft_core::limit::open_files::original(),
        }
    }

    /// Why the layers cannot keep this policy; `None` when they can.
    pub(super) fn unenforceable(&self) -> Option<String> {
        let Layers { namespaces, landlock, .. } = self.layers;
        // Seatbelt closes by path what lies in an open directory.
        if self.layers == Layers::NONE || self.layers.seatbelt {
            return None;
        }
        if self.read.is_some() && landlock.is_none() {
            return Some("`[sandbox] read` needs Landlock, which this kernel does not offer".to_owned());
        }
        let hidden = self.hidden.iter().find(|hidden| self.may_write(hidden)).filter(|_| !namespaces);
        hidden.map(|hidden| {
            format!(
                "`{}`, which no tool may read or write, lies in a directory that tools may write, and \
                 only a mount namespace could cover it",
                hidden.display()
            )
        })
    }

    /// What a child is sealed against: what is hidden, and what is fixed where it may write. Not credential stores and what
    /// starts by itself: other programs replace these files every day, and no right hangs on them.
    pub(super) fn sealed(&self, grant: &Grant) -> Vec<Root> {
        let own = grant.closed().filter(|closed| matches!(closed.why, Why::Own | Why::Denied));
        let covered = own
            .map(|closed| &closed.root)
            .filter(|root| grant.hidden().any(|hidden| hidden == *root) || self.may_write(root.real()));
        covered.cloned().collect()
    }

    /// Whether a directory that may be written contains `path`.
    pub(super) fn may_write(&self, path: &Path) -> bool {
        self.write_root(path).is_some()
    }

    /// The directory that may be written in which `path` lies.
    pub(super) fn write_root(&self, path: &Path) -> Option<&Path> {
        match &self.write {
            None => Some(Path::new("/")),
            Some(roots) => roots.iter().find(|root| path.starts_with(root)).map(PathBuf::as_path),
        }
    }
}

fn with_caches(grant: &Grant, roots: Option<Vec<PathBuf>>) -> Option<Vec<PathBuf>> {
    let caches = || grant.caches().map(|caches| caches.real().to_owned());
    roots.map(|roots| roots.into_iter().chain(caches()).collect())
}

/// The directories of `reach` that lie in no other of them.
fn outermost(reach: &Reach) -> Option<Vec<PathBuf>> {
    let Reach::Roots(roots) = reach else { return None };
    let inner = |root: &Root| roots.iter().any(|other| other != root && other.contains(root));
    if roots.iter().any(|root| root.real() == Path::new("/")) {
        return None;
    }
    let outer = roots.iter().filter(|root| !inner(root)).map(|root| root.real().to_owned());
    Some(outer.collect())
}
