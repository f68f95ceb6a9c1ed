//! The rights of one child, as they are sent to the helper: a [`Grant`] with resolved paths, and the layers
//! that enforce it. Refuses a policy that the layers cannot enforce.

#[cfg(target_os = "linux")]
mod aliases;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
use self::aliases::with_aliases;
use super::layers::Layers;
use super::seals::meant;
use haft_core::grant::{Grant, Reach, Root, Why};

/// The policy of a child's confinement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Policy {
    pub(super) layers: Layers,
    /// Writable directories; `None` for everything.
    pub(super) write: Option<Vec<PathBuf>>,
    /// Readable directories; `None` for everything.
    pub(super) read: Option<Vec<PathBuf>>,
    /// Paths that can neither be read nor written.
    pub(super) hidden: Vec<PathBuf>,
    /// Paths that cannot be written.
    pub(super) fixed: Vec<PathBuf>,
    /// The directory of this child alone, which is open also in a hidden one.
    pub(super) private: Option<PathBuf>,
    pub(super) network: bool,
    pub(super) unix_sockets: bool,
    /// Whether the child stays in the session of its terminal.
    pub(super) terminal: bool,
    /// The child's soft limit on open files.
    pub(super) open_files: Option<u64>,
}

impl Policy {
    /// Returns the policy of `grant`, enforced by `layers`.
    pub(super) fn new(grant: &Grant, layers: Layers) -> Self {
        Self {
            layers,
            write: with_own(grant, outermost(grant.writable())),
            read: with_own(grant, outermost(&grant.readable())).map(|read| with_needs(grant, read)),
            hidden: with_aliases(grant.hidden().flat_map(meant).collect()),
            fixed: with_aliases(grant.fixed().flat_map(meant).collect()),
            private: grant.private().map(|own| own.real().to_owned()),
            network: grant.network(),
            unix_sockets: grant.unix_sockets(),
            terminal: false,
            open_files: haft_core::limit::original_open_files(),
        }
    }

    /// Returns the reason why the layers cannot enforce this policy; `None` if they can.
    pub(super) fn unenforceable(&self) -> Option<String> {
        let Layers { namespaces, landlock, .. } = self.layers;
        // Seatbelt denies paths inside a writable directory.
        if self.layers == Layers::NONE || self.layers.seatbelt {
            return None;
        }
        if self.read.is_some() && landlock.is_none() {
            return Some("`read` needs Landlock, which this kernel does not have".to_owned());
        }
        let hidden = self.hidden.iter().find(|hidden| self.may_write(hidden)).filter(|_| !namespaces);
        hidden.map(|hidden| {
            format!(
                "no tool may read or write `{}`, but it is in a directory that tools may write; only a mount \
                 namespace can hide it",
                hidden.display()
            )
        })
    }

    /// Returns the sealed paths of a child: hidden paths, and fixed paths in writable directories. Credential
    /// stores and start-up files are not sealed: other programs replace these files every day, and no right
    /// depends on them.
    pub(super) fn sealed(&self, grant: &Grant) -> Vec<Root> {
        let protected = grant.closed().filter(|closed| matches!(closed.why, Why::Own | Why::Denied));
        let covered = protected
            .map(|closed| &closed.root)
            .filter(|root| grant.hidden().any(|hidden| hidden == *root) || self.may_write(root.real()));
        covered.cloned().collect()
    }

    /// Reports whether a writable directory contains `path`.
    pub(super) fn may_write(&self, path: &Path) -> bool {
        self.write_root(path).is_some()
    }

    /// Returns the writable directory that contains `path`.
    pub(super) fn write_root(&self, path: &Path) -> Option<&Path> {
        match &self.write {
            None => Some(Path::new("/")),
            Some(roots) => roots.iter().find(|root| path.starts_with(root)).map(PathBuf::as_path),
        }
    }
}

fn with_own(grant: &Grant, roots: Option<Vec<PathBuf>>) -> Option<Vec<PathBuf>> {
    // The caches of a child with a private directory are in it.
    let own = || grant.private().or(grant.caches()).map(|own| own.real().to_owned());
    roots.map(|roots| roots.into_iter().chain(own()).collect())
}

/// Adds the paths that the child reads in order to run.
fn with_needs(grant: &Grant, roots: Vec<PathBuf>) -> Vec<PathBuf> {
    roots.into_iter().chain(grant.needs().iter().map(|root| root.real().to_owned())).collect()
}

/// Returns the directories of `reach` that are not inside another one.
fn outermost(reach: &Reach) -> Option<Vec<PathBuf>> {
    let Reach::Roots(roots) = reach else { return None };
    let inner = |root: &Root| roots.iter().any(|other| other != root && other.contains(root));
    if roots.iter().any(|root| root.real() == Path::new("/")) {
        return None;
    }
    let outer = roots.iter().filter(|root| !inner(root)).map(|root| root.real().to_owned());
    Some(outer.collect())
}

/// Returns `paths`: macOS mounts a file system only once.
#[cfg(target_os = "macos")]
fn with_aliases(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths
}
