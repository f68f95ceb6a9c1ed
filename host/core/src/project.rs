//! What lies around a workspace: the folders from the root of its repository down to it. Never looks beyond that, and
//! takes nobody else's folder for a repository.

pub mod agents_md;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::grant::{Folder, Root};

/// What marks the root of a repository: a folder, or a file in a worktree or submodule of git.
const MARK: &str = ".git";

/// Folders that are looked at, from the workspace upwards: deeper than people nest.
const MAX_DEPTH: usize = 64;

/// A workspace in its repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    root: Root,
    /// The workspace, from there.
    workspace: PathBuf,
}

impl Project {
    /// The repository that `workspace` lies in; the workspace alone where it lies in none.
    pub fn around(workspace: &Root) -> io::Result<Self> {
        let real = workspace.real();
        let found = real.ancestors().take(MAX_DEPTH).find(|folder| is_repository(folder, real));
        let root = Root::resolve(Path::new("/"), found.unwrap_or(real))?;
        let workspace = real.strip_prefix(root.real()).unwrap_or(Path::new("")).to_owned();
        Ok(Self { root, workspace })
    }

    /// The root of the repository, to open what lies below.
    pub fn folder(&self) -> io::Result<Folder> {
        self.root.folder()
    }

    /// The repository's root.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The folders from the workspace up to the root, as paths below the root: the nearest first.
    pub fn upwards(&self) -> impl Iterator<Item = &Path> {
        self.workspace.ancestors()
    }

    /// The absolute path of `inside`, for people and models.
    pub fn path(&self, inside: &Path) -> PathBuf {
        self.root.real().join(inside)
    }
}

/// Whether `folder` is the root of a repository that is this user's or that of whoever owns the `workspace`. Somebody
/// else's, such as one that was made in `/tmp`, says nothing about what lies below it (as git has it since CVE-2022-24765).
fn is_repository(folder: &Path, workspace: &Path) -> bool {
    let Ok(mark) = fs::symlink_metadata(folder.join(MARK)) else { return false };
    let is_owner = || fs::metadata(workspace).is_ok_and(|own| own.uid() == mark.uid());
    (mark.is_dir() || mark.is_file()) && (mark.uid() == rustix::process::geteuid().as_raw() || is_owner())
}

#[cfg(test)]
mod tests;
