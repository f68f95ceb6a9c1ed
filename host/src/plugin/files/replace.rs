//! A file that is replaced by renaming another over it keeps its mode and, where the kernel
//! allows, its owner. Never follows a link and never leaves the two directories.

use std::fs::File;
use std::io;

use rustix::fs::{FileType, Mode, OFlags, Stat, fchmod, fchown, fstat};
use rustix::process::{Gid, Uid};
use wasmtime_wasi::filesystem::Dir;

/// Permission bits, without set-user-ID, set-group-ID and sticky: those are not for tools to hand on.
const PERMISSIONS: u32 = 0o777;

/// Gives the file at `old_path` the mode and owner of the file at `new_path`, if both are
/// regular files. What cannot be kept is left as it is: the rename itself is what was asked for.
pub(super) fn keep_mode(from: &Dir, old_path: &str, to: &Dir, new_path: &str) {
    let kept = || -> io::Result<()> {
        let replaced = fstat(open(to, new_path, GLANCE)?)?;
        let file = open(from, old_path, READ)?;
        if is_file(&replaced) && is_file(&fstat(&file)?) {
            // The owner first: changing it clears mode bits. Only root may give files away.
            let _ = fchown(&file, Some(Uid::from_raw(replaced.st_uid)), Some(Gid::from_raw(replaced.st_gid)));
            fchmod(&file, Mode::from_raw_mode(replaced.st_mode & PERMISSIONS))?;
        }
        Ok(())
    };
    if let Err(error) = kept()
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(%error, "mode of a replaced file not kept");
    }
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Enough to ask for a file's mode, which may be one that does not let haft read it.
#[cfg(target_os = "linux")]
const GLANCE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const GLANCE: OFlags = READ;

/// Enough to change a file's mode; waits for nothing.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

fn open(directory: &Dir, path: &str, how: OFlags) -> io::Result<File> {
    open_beneath(directory, path, how | OFlags::NOFOLLOW | OFlags::CLOEXEC)
}

#[cfg(target_os = "linux")]
fn open_beneath(directory: &Dir, path: &str, flags: OFlags) -> io::Result<File> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(&*directory.dir, path, flags, Mode::empty(), resolve)?.into())
}

/// Without `openat2`, only a name directly in the directory cannot lead out of it.
#[cfg(not(target_os = "linux"))]
fn open_beneath(directory: &Dir, path: &str, flags: OFlags) -> io::Result<File> {
    if path.contains('/') || path == ".." {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(rustix::fs::openat(&*directory.dir, path, flags, Mode::empty())?.into())
}
