//! A directory that a right extends to: resolved once when the program is loaded, opened again
//! for every use, and never through a link that was not there when it was resolved.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A directory that a grant speaks of; among what it closes also a file. It need not exist yet.
///
/// Equality and order are those of the resolved path.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
    real: PathBuf,
}

impl Root {
    /// Resolves `path` against `base`, which must be absolute. Links are followed now, as far as
    /// the path exists; the rest is taken as written.
    pub fn resolve(base: &Path, path: &Path) -> io::Result<Self> {
        let path = normalise(&base.join(path));
        let real = real_path(&path)?;
        Ok(Self { path, real })
    }

    /// `/`: the whole file system.
    pub fn everything() -> Self {
        Self { path: "/".into(), real: "/".into() }
    }

    /// The absolute path as it was granted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The absolute path without links.
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// Whether `other` is this directory or lies below it.
    pub fn contains(&self, other: &Self) -> bool {
        other.real.starts_with(&self.real)
    }

    /// Opens the directory. Fails when any component of the resolved path is a link: it was made after the grant, and
    /// following it would move the grant.
    pub fn open(&self) -> io::Result<File> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(CWD, &self.real, flags, Mode::empty(), resolve) {
            // Not there, or kept away by the sandbox that haft itself runs in.
            Err(Errno::NOSYS | Errno::PERM) => Ok(by_parts(&self.real, flags)?.into()),
            opened => Ok(opened?.into()),
        }
    }
}

impl PartialEq for Root {
    fn eq(&self, other: &Self) -> bool {
        self.real == other.real
    }
}

impl Eq for Root {}

/// Opens a directory part by part, none of which may be a link.
fn by_parts(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory = rustix::fs::openat(CWD, "/", step, Mode::empty())?;
    for part in path.components().skip(1) {
        directory = rustix::fs::openat(&directory, part.as_os_str(), step, Mode::empty())?;
    }
    rustix::fs::openat(&directory, ".", flags, Mode::empty())
}

/// Removes `.` and resolves `..` against the parts before it, as the shell's `cd` does.
pub fn normalise(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// The longest existing beginning of `path`, resolved, with the rest appended.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok(real_path(parent)?.join(name)),
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_opened_by_parts_is_the_same_and_never_behind_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(place.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", place.join("link")).unwrap();
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let inode = |file: &OwnedFd| rustix::fs::fstat(file).unwrap().st_ino;
        let opened = by_parts(&place.join("a/b"), flags).unwrap();
        let direct = Root::resolve(&place, Path::new("a/b")).unwrap().open().unwrap();
        assert_eq!(inode(&opened), inode(&direct.into()));
        assert_eq!(by_parts(&place.join("link/b"), flags).unwrap_err(), Errno::NOTDIR);
        assert_eq!(by_parts(&place.join("a/c"), flags).unwrap_err(), Errno::NOENT);
    }
}
