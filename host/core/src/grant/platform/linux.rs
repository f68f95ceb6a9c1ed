//! Linux: `openat2(2)`, with a fallback that opens every component of the path in turn.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// Opens the directory at an absolute path. Fails if any component of the path is a symbolic link.
pub(crate) fn open_without_links(path: &Path) -> io::Result<File> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, DIRECTORY, Mode::empty(), resolve) {
        // Not supported by the kernel, or denied by the sandbox that haft itself runs in.
        Err(Errno::NOSYS | Errno::PERM) => Ok(by_parts(path)?.into()),
        opened => Ok(opened?.into()),
    }
}

/// Opens a directory component by component, none of which may be a symbolic link.
fn by_parts(path: &Path) -> rustix::io::Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory = openat(CWD, "/", step, Mode::empty())?;
    for part in path.components().skip(1) {
        directory = openat(&directory, part.as_os_str(), step, Mode::empty())?;
    }
    openat(&directory, ".", DIRECTORY, Mode::empty())
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
        let inode = |file: &OwnedFd| rustix::fs::fstat(file).unwrap().st_ino;
        let opened = by_parts(&place.join("a/b")).unwrap();
        let direct = open_without_links(&place.join("a/b")).unwrap();
        assert_eq!(inode(&opened), inode(&direct.into()));
        assert_eq!(by_parts(&place.join("link/b")).unwrap_err(), Errno::NOTDIR);
        assert_eq!(by_parts(&place.join("a/c")).unwrap_err(), Errno::NOENT);
    }
}
