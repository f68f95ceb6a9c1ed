//! A file that is replaced by renaming another over it keeps its mode and, where the kernel
//! allows, its owner. Never follows a link.

use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fchmod, fchown, fstat, openat, statat};
use rustix::process::{Gid, Uid};

/// Permission bits, without set-user-ID, set-group-ID and sticky: those are not for tools to hand on.
const PERMISSIONS: Mode = Mode::from_raw_mode(0o777);

/// Enough to change a file's mode; waits for nothing.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Gives the file `old` in `from` the mode and owner of the file `new` in `to`, if both are regular
/// files. What cannot be kept is left as it is: the rename itself is what was asked for.
pub(super) fn keep_mode(from: &File, old: &str, to: &File, new: &str) {
    let copy_mode = || -> io::Result<()> {
        let replaced = statat(to, new, AtFlags::SYMLINK_NOFOLLOW)?;
        let file = File::from(openat(from, old, READ, Mode::empty())?);
        if is_file(&replaced) && is_file(&fstat(&file)?) {
            // The owner first: changing it clears mode bits. Only root may give files away.
            let _ = fchown(&file, Some(Uid::from_raw(replaced.st_uid)), Some(Gid::from_raw(replaced.st_gid)));
            fchmod(&file, Mode::from_raw_mode(replaced.st_mode) & PERMISSIONS)?;
        }
        Ok(())
    };
    if let Err(error) = copy_mode()
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(%error, "mode of a replaced file not kept");
    }
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}
