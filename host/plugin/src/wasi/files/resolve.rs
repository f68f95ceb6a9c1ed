//! Resolves a path to a handle that allows metadata queries only. The handle can be checked and then reopened, and
//! refers to one object regardless of changes to the path. Refuses `/proc`, which would show haft's environment and
//! memory to a guest.

#[cfg_attr(target_os = "linux", path = "resolve/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "resolve/platform/macos.rs")]
mod platform;

use std::fs::File;
use std::io;
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{FsError, FsResult};

use haft_core::replace;

pub(super) use self::platform::{HANDLE, identity, leads_elsewhere, set_times};

/// Flags of every open, which must not block if the object has become a FIFO or a terminal.
pub(super) const ALWAYS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The bounds of the resolution of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bounds {
    /// Below the start directory, as the kernel ensures.
    Beneath,
    /// Anywhere that the user would get by following it. Only for reading.
    Anywhere,
}

/// Whether a link at the end of a path is followed. Those before it always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    Follow,
    Keep,
}

pub(super) struct Object {
    /// A handle for metadata only.
    pub(super) file: File,
    pub(super) stat: Stat,
}

impl Object {
    pub(super) fn from_file(file: File) -> io::Result<Self> {
        let stat = fstat(&file)?;
        Ok(Self { file, stat })
    }

    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Opens the object. Refuses all kinds but files and directories: opening a FIFO could block forever, and
    /// opening a device has effects.
    pub(super) fn open(&self, how: OFlags) -> FsResult<File> {
        match self.kind() {
            FileType::RegularFile | FileType::Directory => {
                platform::reopen(&self.file, how | ALWAYS).map_err(io::Error::from).map_err(error)
            }
            FileType::Symlink => Err(ErrorCode::Loop.into()),
            _ => Err(ErrorCode::Unsupported.into()),
        }
    }
}

pub(super) fn resolve_path(directory: &Dir, path: &str, links: Links, bounds: Bounds) -> FsResult<Object> {
    let file = platform::find(&directory.dir, path, links, bounds).map_err(escape)?;
    if platform::holds_processes(&file).map_err(error)? {
        return Err(ErrorCode::NotPermitted.into());
    }
    Object::from_file(file).map_err(error)
}

/// Returns the directory `path` below `directory`, to do something to its entries.
pub(super) fn enter(directory: &Dir, path: &str) -> FsResult<File> {
    let found = resolve_path(directory, path, Links::Follow, Bounds::Beneath)?;
    match found.kind() {
        FileType::Directory => Ok(found.file),
        _ => Err(ErrorCode::NotDirectory.into()),
    }
}

/// Returns the absolute path of `path` below `directory`, as text for people.
pub(super) fn place(directory: &Dir, path: &str) -> FsResult<PathBuf> {
    Ok(real_path(&directory.dir).map_err(error)?.join(path))
}

/// Returns the current path of an open object. Fails for an object without a path.
pub(super) fn real_path(object: &File) -> io::Result<PathBuf> {
    let path = platform::kernel_path(object)?;
    // An unmounted object has a relative path.
    if path.is_absolute() { Ok(path) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Returns an I/O error as WASI names it.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
pub(super) fn error(error: io::Error) -> FsError {
    code(&error).unwrap_or_else(|| ErrorCode::from(&error)).into()
}

/// Returns the errors that WASI has names for and wasmtime-wasi has not.
pub(super) fn code(error: &io::Error) -> Option<ErrorCode> {
    match Errno::from_io_error(error)? {
        Errno::DQUOT => Some(ErrorCode::Quota),
        Errno::ROFS => Some(ErrorCode::ReadOnly),
        _ => None,
    }
}

/// Returns an error of resolving in the form of WASI: the kernel reports a path to the outside as "cross-device".
fn escape(errno: Errno) -> FsError {
    match errno {
        Errno::XDEV => ErrorCode::NotPermitted.into(),
        errno => error(errno.into()),
    }
}

// A file that is replaced by a rename keeps its mode, owner and attributes, for which WASI has no operation. Never
// follows a link.

/// The prefix of the name of a temporary file that will replace another file. The content may be for its user only. The
/// file gets everything but the content of the replaced file, or its rename fails.
pub(super) const PRIVATE: &str = ".haft-private-";

/// Enough to change a file's mode; waits for nothing.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Copies the metadata of the file `old` to the file `new`. A guest that requested the copy by a [`PRIVATE`] name gets
/// "busy" if it is impossible, and overwrites the file in place. For other guests missing metadata are ignored, because
/// they requested only the rename.
pub(super) fn keep((from, old): (&File, &str), (to, new): (&File, &str)) -> FsResult<()> {
    let is_private = old.starts_with(PRIVATE);
    let keep = || -> io::Result<bool> {
        let file = File::from(openat(from, old, READ, Mode::empty())?);
        replace::keep(to, new, &file)?;
        Ok(!is_private || !replace::has_other_names(to, new)?)
    };
    match keep() {
        Ok(true) => Ok(()),
        Err(error) if !is_private || error.kind() == io::ErrorKind::NotFound => {
            tracing::debug!(%error, "a replaced file was not saved completely");
            Ok(())
        }
        Ok(false) | Err(_) => Err(ErrorCode::Busy.into()),
    }
}
