//! The directories that one call may write, opened once for the call: the guest's preopens and the Landlock rules of
//! its thread use the same open directories. No directory is opened again by name, because the name may lead elsewhere
//! by then.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
#[cfg(target_os = "macos")]
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

#[cfg(target_os = "linux")]
use rustix::fs::{AtFlags, StatxFlags, fstatfs, makedev, statx};

use crate::storage::{self, PrivateDirectory, Storage};
use haft_core::grant::{Grant, Reach, Root};

/// The writable directories of one call. Clones share the directories.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writable(Arc<OpenedDirectories>);

#[derive(Debug, Default)]
struct OpenedDirectories {
    everywhere: bool,
    roots: Vec<(Root, Result<Directory, String>)>,
    private: Vec<PrivateDirectory>,
    /// Private directories that could not be opened, by their guest's names.
    missing: Vec<(&'static str, String)>,
}

type Directory = (File, DirectoryId);

/// The identity of a directory, independent of its name: device, inode and, if the kernel reports it, the mount.
/// Another file system may later have the same device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirectoryId {
    device: u64,
    inode: u64,
    mount: u64,
}

/// The paths that a call may write. Calls with equal extents share threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every path: the call has no directories that bound it.
    Everywhere,
    /// Paths below these directories; no path if empty.
    Below(BTreeSet<DirectoryId>),
}

impl Writable {
    /// Returns whether a grant's writable directories must be opened before its call: that may take a while.
    pub(crate) fn needs_opening(grant: &Grant) -> bool {
        matches!(grant.writable(), Reach::Roots(roots) if !roots.is_empty())
            || storage::granted(grant).next().is_some()
    }

    /// Opens the directories that `grant` lets a guest write, including its own in `storage`.
    pub(crate) fn open(grant: &Grant, storage: Option<&Storage>) -> Self {
        let mut opened = OpenedDirectories::default();
        let text = |error: io::Error| error.to_string();
        match grant.writable() {
            Reach::Anywhere => opened.everywhere = true,
            Reach::Roots(roots) => {
                let open = |root: &Root| (root.clone(), open(root).map_err(text));
                opened.roots = roots.iter().map(open).collect();
            }
        }
        let granted =
            storage.into_iter().flat_map(|storage| storage::granted(grant).map(move |one| (storage, one)));
        for (storage, (kept, quota)) in granted {
            match storage.open(kept, quota) {
                Ok(private) => {
                    opened.roots.push((private.root.clone(), open(&private.root).map_err(text)));
                    opened.private.push(private);
                }
                Err(error) => opened.missing.push((storage::name(kept), error.to_string())),
            }
        }
        Self(Arc::new(opened))
    }

    pub(crate) fn private(&self) -> &[PrivateDirectory] {
        &self.0.private
    }

    pub(crate) fn missing(&self) -> &[(&'static str, String)] {
        &self.0.missing
    }

    /// Ends the call: others may write in the guest's own directories.
    pub(crate) fn release(&self) {
        self.0.private.iter().for_each(|private| private.quota.release());
    }

    /// Returns a handle of `root`, or the reason why there is none. Only for writable directories.
    pub(crate) fn directory(&self, root: &Root) -> Result<File, String> {
        let text = |error: io::Error| error.to_string();
        match self.0.roots.iter().find(|(own, _)| own == root) {
            Some((_, Ok((directory, _)))) => directory.try_clone().map_err(text),
            Some((_, Err(problem))) => Err(problem.clone()),
            None => root.open().map_err(text),
        }
    }

    pub(crate) fn extent(&self) -> Extent {
        if self.0.everywhere {
            return Extent::Everywhere;
        }
        Extent::Below(self.opened().map(|(_, identity)| *identity).collect())
    }

    pub(crate) fn is_nowhere(&self) -> bool {
        !self.0.everywhere && self.0.roots.is_empty()
    }

    /// Returns the current identities of all directories of `grant`, in order; `None` for one that cannot be
    /// opened. `self` has the writable directories of this grant.
    pub(crate) fn identities(&self, grant: &Grant) -> Vec<Option<DirectoryId>> {
        let identity_of = |root: &Root| match self.0.roots.iter().find(|(own, _)| own == root) {
            Some((_, opened)) => opened.as_ref().ok().map(|(_, identity)| *identity),
            None => open(root).ok().map(|(_, identity)| identity),
        };
        let preopens = grant.preopens();
        let private = self.0.private.iter().map(|private| &private.root);
        preopens.iter().map(|preopen| &preopen.root).chain(private).map(identity_of).collect()
    }

    pub(super) fn opened(&self) -> impl Iterator<Item = &Directory> {
        self.0.roots.iter().filter_map(|(_, opened)| opened.as_ref().ok())
    }
}

/// Returns whether all of these directories are on a local disk or in memory. Mounts below them may not be.
pub(crate) fn is_local(reach: &Reach) -> bool {
    reach.roots().iter().all(|root| root.open().is_ok_and(|directory| is_of_local_disk(&directory)))
}

fn open(root: &Root) -> io::Result<Directory> {
    let directory = root.open()?;
    let identity = identity(&directory)?;
    Ok((directory, identity))
}

/// The file systems that ask no other machine or program, as `linux/magic.h` numbers them: ext4, XFS, Btrfs, F2FS, ZFS,
/// overlayfs and tmpfs.
#[cfg(target_os = "linux")]
const LOCAL: [i64; 7] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0x794c_7630, 0x0102_1994];

/// Returns whether a directory is of a file system that is known to ask no other machine or program.
#[cfg(target_os = "linux")]
fn is_of_local_disk(directory: &File) -> bool {
    fstatfs(directory).is_ok_and(|about| LOCAL.contains(&about.f_type))
}

/// Returns the identity of an open directory, independent of its name.
#[cfg(target_os = "linux")]
fn identity(directory: &File) -> io::Result<DirectoryId> {
    let mask = StatxFlags::INO | StatxFlags::MNT_ID;
    let stat = statx(directory, "", AtFlags::EMPTY_PATH, mask)?;
    // Zero from kernels before 5.8, which do not know it.
    let mount = stat.stx_mnt_id;
    Ok(DirectoryId { device: makedev(stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino, mount })
}

/// Returns whether a directory is known to be local: of none on macOS.
#[cfg(target_os = "macos")]
fn is_of_local_disk(_: &File) -> bool {
    false
}

/// Returns the identity of an open directory, independent of its name: its device and inode.
#[cfg(target_os = "macos")]
fn identity(directory: &File) -> io::Result<DirectoryId> {
    let metadata = directory.metadata()?;
    Ok(DirectoryId { device: metadata.dev(), inode: metadata.ino(), mount: 0 })
}
