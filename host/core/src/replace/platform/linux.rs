//! Linux: `O_TMPFILE` and `/proc/self/fd`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};

/// Opens an unnamed file in `folder`, if the file system supports it.
pub(super) fn unnamed(folder: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR).ok().map(File::from)
}

/// Links an unnamed file to the free path `name`.
pub(super) fn give_name(file: &File, name: &Path) -> io::Result<()> {
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, descriptor, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}
