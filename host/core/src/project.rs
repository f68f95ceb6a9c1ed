//! The repository around a workspace: the folders from its root down to the workspace. Never searches outside of
//! it, and ignores a repository of another user.

pub mod agents_md;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::grant::{Folder, Root};

/// The mark of a repository's root: a folder, or a file in a worktree or submodule of git.
const MARK: &str = ".git";

/// The maximum number of folders searched, from the workspace upwards: deeper than people nest.
const MAX_DEPTH: usize = 64;

/// A workspace in its repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    root: Root,
    /// The path of the workspace, relative to the root.
    workspace: PathBuf,
}

impl Project {
    /// Finds the repository of `workspace`; without a repository the project is the workspace alone.
    pub fn around(workspace: &Root) -> io::Result<Self> {
        let real = workspace.real();
        let found = real.ancestors().take(MAX_DEPTH).find(|folder| is_repository(folder, real));
        let root = Root::resolve(Path::new("/"), found.unwrap_or(real))?;
        let workspace = real.strip_prefix(root.real()).unwrap_or(Path::new("")).to_owned();
        Ok(Self { root, workspace })
    }

    /// Opens the root of the repository.
    pub fn folder(&self) -> io::Result<Folder> {
        self.root.folder()
    }

    /// Returns the root of the repository.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Returns the folders from the workspace up to the root, relative to the root, nearest first.
    pub fn upwards(&self) -> impl Iterator<Item = &Path> {
        self.workspace.ancestors()
    }

    /// Returns the absolute path of `inside`, for people and models.
    pub fn path(&self, inside: &Path) -> PathBuf {
        self.root.real().join(inside)
    }
}

/// Returns whether `folder` is the root of a repository that belongs to this user or to the owner of the
/// `workspace`. The repository of another user, such as a repository in `/tmp`, is ignored (as by git since
/// CVE-2022-24765).
fn is_repository(folder: &Path, workspace: &Path) -> bool {
    let Ok(mark) = fs::symlink_metadata(folder.join(MARK)) else { return false };
    let is_owner = || fs::metadata(workspace).is_ok_and(|metadata| metadata.uid() == mark.uid());
    (mark.is_dir() || mark.is_file()) && (mark.uid() == rustix::process::geteuid().as_raw() || is_owner())
}

#[cfg(test)]
mod tests;
