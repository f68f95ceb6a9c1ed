//! Linux: by device, inode and mount.

use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, StatxFlags, makedev, statx};

use crate::threads::writable::DirectoryId;

/// What an open directory is, whatever its name.
pub(super) fn identity(directory: &File) -> io::Result<DirectoryId> {
    let mask = StatxFlags::INO | StatxFlags::MNT_ID;
    let stat = statx(directory, "", AtFlags::EMPTY_PATH, mask)?;
    // Zero from kernels before 5.8, which do not know it.
    let mount = stat.stx_mnt_id;
    Ok(DirectoryId { device: makedev(stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino, mount })
}
