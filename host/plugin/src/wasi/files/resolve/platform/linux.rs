//! Linux: `openat2(2)`, handles of `O_PATH`, and `/proc/self/fd`, which reopens a handle regardless of changes to
//! its path.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, Timestamps, fstatfs, open, openat2, utimensat,
};
use rustix::io::Errno;

use crate::wasi::files::resolve::{Bounds, Links};

/// A handle that needs no right to its object.
pub(in crate::wasi::files) const HANDLE: OFlags = OFlags::PATH;

/// `PROC_SUPER_MAGIC` of `linux/magic.h`: `/proc`, where a process's environment and memory are files.
const PROCFS: i64 = 0x9fa0;

/// Maximum number of lookups of a path that another process changes meanwhile.
const MAX_LOOKUPS: usize = 16;

/// Follows textual links, but not the kernel's own (`/proc/self/fd/3`), which lead to any open file of a process.
pub(in crate::wasi::files) fn find(
    directory: &File,
    path: &str,
    links: Links,
    bounds: Bounds,
) -> rustix::io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let flags = if links == Links::Follow { flags } else { flags | OFlags::NOFOLLOW };
    let resolve = match bounds {
        Bounds::Beneath => ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH,
        Bounds::Anywhere => ResolveFlags::NO_MAGICLINKS,
    };
    for _ in 0..MAX_LOOKUPS {
        match openat2(directory, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            found => return found.map(File::from),
        }
    }
    Err(Errno::BUSY)
}

pub(in crate::wasi::files) fn leads_elsewhere(directory: &File, path: &str) -> bool {
    let resolve = ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let found = openat2(directory, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve);
    matches!(found, Err(Errno::XDEV))
}

/// Opens the resolved object itself, regardless of changes to its path.
pub(in crate::wasi::files) fn reopen(seen: &File, how: OFlags) -> rustix::io::Result<File> {
    open(own_link(seen), how, Mode::empty()).map(File::from)
}

pub(in crate::wasi::files) fn holds_processes(object: &File) -> io::Result<bool> {
    Ok(fstatfs(object)?.f_type == PROCFS)
}

pub(in crate::wasi::files) fn kernel_path(object: &File) -> io::Result<PathBuf> {
    std::fs::read_link(own_link(object))
}

pub(in crate::wasi::files) fn set_times(object: &File, times: &Timestamps) -> rustix::io::Result<()> {
    utimensat(CWD, own_link(object), times, AtFlags::empty())
}

pub(in crate::wasi::files) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn own_link(file: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}
