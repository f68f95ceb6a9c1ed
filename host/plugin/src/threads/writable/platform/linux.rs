//! Linux: by device, inode and mount.

use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, StatxFlags, fstatfs, makedev, statx};

use crate::threads::writable::DirectoryId;

/// The file systems that ask no other machine or program, as `linux/magic.h` numbers them: ext4, XFS, Btrfs, F2FS, ZFS,
/// overlayfs and tmpfs.
const LOCAL: [i64; 7] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0x794c_7630, 0x0102_1994];

/// Whether a directory is of a file system that is known to ask no other machine or program.
pub(super) fn is_local(directory: &File) -> bool {
    fstatfs(directory).is_ok_and(|about| LOCAL.contains(&about.f_type))
}

/// What an open directory is, whatever its name.
pub(super) fn identity(directory: &File) -> io::Result<DirectoryId> {
    let mask = StatxFlags::INO | StatxFlags::MNT_ID;
    let stat = statx(directory, "", AtFlags::EMPTY_PATH, mask)?;
    // Zero from kernels before 5.8, which do not know it.
    let mount = stat.stx_mnt_id;
    Ok(DirectoryId { device: makedev(stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino, mount })
}
