//! macOS: `O_NOFOLLOW_ANY` of `open(2)`.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

/// No component of the path may be a symbolic link. rustix does not define the flag.
const NOFOLLOW_ANY: OFlags = OFlags::from_bits_retain(libc::O_NOFOLLOW_ANY.cast_unsigned());

/// Opens the directory at an absolute path. Fails if any component of the path is a symbolic link.
pub(crate) fn open_without_links(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | NOFOLLOW_ANY;
    Ok(openat(CWD, path, flags, Mode::empty())?.into())
}
