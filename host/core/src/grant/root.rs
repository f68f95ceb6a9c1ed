//! A directory of a grant: resolved once when the program is loaded, opened again for every use, and never through
//! a symbolic link that was created after it was resolved.

use std::fs::{File, Metadata};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
#[cfg(target_os = "linux")]
use rustix::fs::{ResolveFlags, openat2};
#[cfg(target_os = "linux")]
use rustix::io::Errno;

/// A directory of a grant; a closed path may also be a file. The path need not exist.
///
/// Equality and order are those of the resolved path.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
    real: PathBuf,
}

impl Root {
    /// Resolves `path` against `base`, which must be absolute. Symbolic links are followed now, as far as the path
    /// exists; the rest is taken as written.
    pub fn resolve(base: &Path, path: &Path) -> io::Result<Self> {
        let path = normalise(&base.join(path));
        let real = real_path(&path)?;
        Ok(Self { path, real })
    }

    /// Resolves `path` like [`Self::resolve`], to close it. If this user may not search a directory on the way to
    /// `path`, the result is that directory: a tool that owns the directory can make it searchable again.
    pub fn protecting(base: &Path, path: &Path) -> io::Result<Self> {
        Self::resolve(base, path).or_else(|error| {
            let path = normalise(&base.join(path));
            let unsearchable = way(&path).1.filter(|_| error.kind() == io::ErrorKind::PermissionDenied);
            unsearchable.map(|real| Self { path, real }).ok_or(error)
        })
    }

    /// Returns `/`: the complete file system.
    pub fn everything() -> Self {
        Self { path: "/".into(), real: "/".into() }
    }

    /// Returns the absolute path as granted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the absolute path without symbolic links.
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// Returns whether `other` is this directory or below it.
    pub fn contains(&self, other: &Self) -> bool {
        other.real.starts_with(&self.real)
    }

    /// Returns the paths of the symbolic links in the granted path, as of now.
    pub fn links(&self) -> Vec<PathBuf> {
        way(&self.path).0
    }

    /// Opens the directory. Fails if any component of the resolved path is a symbolic link: it was created after
    /// the grant, and following it would move the grant.
    pub fn open(&self) -> io::Result<File> {
        open_without_links(&self.real)
    }
}

/// The maximum number of symbolic links in a path: the limit of the kernel.
const MAX_LINKS: usize = 40;

impl PartialEq for Root {
    fn eq(&self, other: &Self) -> bool {
        self.real == other.real
    }
}

impl Eq for Root {}

/// Returns whether `is` holds for the object at `path`, through links. An object behind a directory that this user may
/// not search counts: a tool can take the permissions of its own directories away, and restore them later.
pub fn may_be(path: &Path, is: impl FnOnce(&Metadata) -> bool) -> bool {
    match path.metadata() {
        Ok(found) => is(&found),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

/// Removes `.` and resolves `..` against the components before it, as the shell's `cd` does.
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

/// Resolves the longest existing prefix of `path`, and appends the rest.
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

/// Returns the paths of the symbolic links on the way to `path`, and the directory where the way ends because this user
/// may not search it.
fn way(path: &Path) -> (Vec<PathBuf>, Option<PathBuf>) {
    let mut found = Vec::new();
    let mut place = PathBuf::from("/");
    let mut parts: Vec<PathBuf> = parts(path).collect();
    while let Some(part) = parts.pop() {
        if part.as_os_str() == ".." {
            place.pop();
            continue;
        }
        let next = place.join(&part);
        match std::fs::read_link(&next) {
            Ok(target) if found.len() < MAX_LINKS => {
                if target.is_absolute() {
                    place = PathBuf::from("/");
                }
                parts.extend(self::parts(&target));
                found.push(next);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return (found, Some(place)),
            _ => place = next,
        }
    }
    (found, None)
}

/// Returns the components of a path, last first, without `.` and the root.
fn parts(path: &Path) -> impl Iterator<Item = PathBuf> {
    let named =
        path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    named.map(|part| PathBuf::from(part.as_os_str()))
}

#[cfg(target_os = "linux")]
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// Opens the directory at an absolute path. Fails if any component of the path is a symbolic link.
#[cfg(target_os = "linux")]
pub(crate) fn open_without_links(path: &Path) -> io::Result<File> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, DIRECTORY, Mode::empty(), resolve) {
        // The kernel does not support it, or the sandbox that haft runs in denies it.
        Err(Errno::NOSYS | Errno::PERM) => Ok(by_parts(path)?.into()),
        opened => Ok(opened?.into()),
    }
}

/// Opens a directory component by component, none of which may be a symbolic link.
#[cfg(target_os = "linux")]
fn by_parts(path: &Path) -> rustix::io::Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory = openat(CWD, "/", step, Mode::empty())?;
    for part in path.components().skip(1) {
        directory = openat(&directory, part.as_os_str(), step, Mode::empty())?;
    }
    openat(&directory, ".", DIRECTORY, Mode::empty())
}

/// No component of the path may be a symbolic link. rustix does not define the flag.
#[cfg(target_os = "macos")]
const NOFOLLOW_ANY: OFlags = OFlags::from_bits_retain(libc::O_NOFOLLOW_ANY.cast_unsigned());

/// Opens the directory at an absolute path. Fails if any component of the path is a symbolic link.
#[cfg(target_os = "macos")]
pub(crate) fn open_without_links(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | NOFOLLOW_ANY;
    Ok(openat(CWD, path, flags, Mode::empty())?.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn circles_of_links_come_to_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        symlink("circle", folder.join("circle")).unwrap();
        let links = |path: &str| Root { path: folder.join(path), real: PathBuf::new() }.links();
        assert_eq!(links("circle/file").len(), MAX_LINKS);
        std::fs::create_dir(folder.join("real")).unwrap();
        symlink("real", folder.join("link")).unwrap();
        assert_eq!(links("link/file"), [folder.join("link")]);
    }

    /// Runs `test` without the right of root to search every directory.
    #[cfg(target_os = "linux")]
    fn as_others<T>(test: impl FnOnce() -> T) -> T {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
        let own = capabilities(None).unwrap();
        let mut fewer = own;
        fewer.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, fewer).unwrap();
        let tested = test();
        set_capabilities(None, own).unwrap();
        tested
    }

    /// F1: a directory that may not be searched stands for the paths behind it, also for a path through a link.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_unsearchable_directory_stands_for_what_is_in_it() {
        use std::fs::{Permissions, create_dir_all, set_permissions, write};
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        create_dir_all(folder.join("a/shut/deep")).unwrap();
        write(folder.join("a/shut/file"), "").unwrap();
        symlink("a/shut/file", folder.join("link")).unwrap();
        let real = |path: &str| Root::protecting(&folder, path.as_ref()).map(|root| root.real);
        let is_file = |path: &str| may_be(&folder.join(path), Metadata::is_file);
        assert_eq!(real("link").unwrap(), folder.join("a/shut/file"));
        assert!(is_file("link") && !is_file("a/shut") && !is_file("a/none"));
        set_permissions(folder.join("a/shut"), Permissions::from_mode(0o0)).unwrap();
        as_others(|| {
            for path in ["link", "a/shut/file", "a/shut/deep/none", "a/../link"] {
                assert_eq!(real(path).unwrap(), folder.join("a/shut"), "{path}");
                assert!(is_file(path), "{path}");
            }
            assert_eq!(real("a/shut").unwrap(), folder.join("a/shut"));
            assert_eq!(real("a/none").unwrap(), folder.join("a/none"));
            assert!(!is_file("a/shut") && !is_file("a/none"));
        });
        set_permissions(folder.join("a/shut"), Permissions::from_mode(0o700)).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_directory_opened_by_parts_is_the_same_and_never_behind_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(place.join("a/b")).unwrap();
        symlink("a", place.join("link")).unwrap();
        let inode = |file: &OwnedFd| rustix::fs::fstat(file).unwrap().st_ino;
        let opened = by_parts(&place.join("a/b")).unwrap();
        let direct = open_without_links(&place.join("a/b")).unwrap();
        assert_eq!(inode(&opened), inode(&direct.into()));
        assert_eq!(by_parts(&place.join("link/b")).unwrap_err(), Errno::NOTDIR);
        assert_eq!(by_parts(&place.join("a/c")).unwrap_err(), Errno::NOENT);
    }
}
