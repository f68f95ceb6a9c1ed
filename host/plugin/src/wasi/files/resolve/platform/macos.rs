//! macOS has neither `openat2` nor `O_PATH`: every part of a path is resolved in turn, and its object is opened for
//! reading. A final link that must not be followed cannot be held at all.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use rustix::fs::{Mode, OFlags, Stat, Timestamps, fstat, ftruncate, futimens, getpath, open, openat};
use rustix::io::Errno;

use crate::wasi::files::resolve::{ALWAYS, Bounds, Links};

/// macOS has no handle without the right to read.
pub(in crate::wasi::files) const HANDLE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

/// Resolves `path` below `directory`. A path to the outside is `EXDEV`, as on Linux.
pub(in crate::wasi::files) fn find(
    directory: &File,
    path: &str,
    links: Links,
    bounds: Bounds,
) -> rustix::io::Result<File> {
    if bounds == Bounds::Anywhere {
        let flags = OFlags::RDONLY | ALWAYS;
        let flags = if links == Links::Follow { flags } else { flags | OFlags::NOFOLLOW };
        return openat(directory, path, flags, Mode::empty()).map(File::from);
    }
    let below = Dir::from_std_file(directory.try_clone().map_err(errno)?);
    if links == Links::Keep && below.symlink_metadata(path).map_err(errno)?.is_symlink() {
        return Err(Errno::LOOP);
    }
    let flags = i32::try_from(ALWAYS.bits()).unwrap_or_default();
    let opened = below.open_with(path, OpenOptions::new().read(true).custom_flags(flags));
    opened.map(cap_std::fs::File::into_std).map_err(errno)
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::XDEV)
}

/// Opens a resolved object by its current path, if that still leads to it. Truncates only then.
pub(in crate::wasi::files) fn reopen(seen: &File, how: OFlags) -> rustix::io::Result<File> {
    let late = how - OFlags::TRUNC;
    let opened = File::from(open(getpath(seen)?, late | OFlags::NOFOLLOW, Mode::empty())?);
    if identity(&fstat(seen)?) != identity(&fstat(&opened)?) {
        return Err(Errno::BUSY);
    }
    if how.contains(OFlags::TRUNC) {
        ftruncate(&opened, 0)?;
    }
    Ok(opened)
}

/// Returns `false`: macOS has no file system of processes.
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
pub(in crate::wasi::files) fn holds_processes(_: &File) -> io::Result<bool> {
    Ok(false)
}

pub(in crate::wasi::files) fn kernel_path(object: &File) -> io::Result<PathBuf> {
    Ok(OsString::from_vec(getpath(object)?.into_bytes()).into())
}

pub(in crate::wasi::files) fn set_times(object: &File, times: &Timestamps) -> rustix::io::Result<()> {
    futimens(object, times)
}

/// Device and inode.
#[expect(clippy::cast_sign_loss, reason = "a number that stands for something, not a quantity")]
pub(in crate::wasi::files) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino)
}

/// Returns `false`: macOS does not report local file systems, so that the answer does not matter.
pub(in crate::wasi::files) fn leads_elsewhere(_: &File, _: &str) -> bool {
    false
}
