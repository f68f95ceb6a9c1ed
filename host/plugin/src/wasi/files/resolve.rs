//! Resolves a path to a handle that allows metadata queries only; the handle can be checked and then reopened, and
//! stays the same object whatever becomes of its path. `/proc` is refused, which would show a guest haft's
//! environment and memory.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, fstatfs};
use rustix::io::Errno;
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{FsError, FsResult};

/// `PROC_SUPER_MAGIC` of `linux/magic.h`: `/proc`, where a process's environment and memory are files.
#[cfg(target_os = "linux")]
const PROCFS: i64 = 0x9fa0;

/// Flags of every open: it must not block if the object has become a FIFO or a terminal.
const ALWAYS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// How far a path may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bounds {
    /// Below the directory it starts from, as the kernel holds it.
    Beneath,
    /// Wherever a person who followed it would get. Only for reading.
    Anywhere,
}

/// Whether a link at the end of a path is followed. Those before it always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    Follow,
    Keep,
}

/// What a path led to.
pub(super) struct Object {
    /// A handle for metadata only.
    pub(super) file: File,
    pub(super) stat: Stat,
}

impl Object {
    /// What `file` is.
    pub(super) fn from_file(file: File) -> io::Result<Self> {
        let stat = fstat(&file)?;
        Ok(Self { file, stat })
    }

    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Opens it. What is neither file nor directory is not: opening a FIFO could wait for ever, and
    /// opening a device does something already.
    pub(super) fn open(&self, how: OFlags) -> FsResult<File> {
        match self.kind() {
            FileType::RegularFile | FileType::Directory => {
                reopen(&self.file, how | ALWAYS).map_err(io::Error::from).map_err(error)
            }
            FileType::Symlink => Err(ErrorCode::Loop.into()),
            _ => Err(ErrorCode::Unsupported.into()),
        }
    }
}

/// What `path` below `directory` leads to.
pub(super) fn resolve_path(directory: &Dir, path: &str, links: Links, bounds: Bounds) -> FsResult<Object> {
    let file = find(&directory.dir, path, links, bounds).map_err(escape)?;
    refuse_processes(&file)?;
    Object::from_file(file).map_err(error)
}

/// The directory `path` below `directory`, to do something to its entries.
pub(super) fn enter(directory: &Dir, path: &str) -> FsResult<File> {
    let found = resolve_path(directory, path, Links::Follow, Bounds::Beneath)?;
    match found.kind() {
        FileType::Directory => Ok(found.file),
        _ => Err(ErrorCode::NotDirectory.into()),
    }
}

/// How often resolving is tried again when another process changes the path meanwhile.
#[cfg(target_os = "linux")]
const MAX_LOOKUPS: usize = 16;

/// Follows links that are text and none of the kernel's own (`/proc/self/fd/3`), which lead to
/// whatever a process has open.
#[cfg(target_os = "linux")]
fn find(directory: &File, path: &str, links: Links, bounds: Bounds) -> rustix::io::Result<File> {
    use rustix::fs::{ResolveFlags, openat2};
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

/// Without `openat2`, every part of a path is resolved in turn, and without `O_PATH`, what it leads to is
/// opened for reading. A link at the end that must not be followed cannot be held at all.
#[cfg(not(target_os = "linux"))]
fn find(directory: &File, path: &str, links: Links, bounds: Bounds) -> rustix::io::Result<File> {
    use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
    let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::XDEV);
    if bounds == Bounds::Anywhere {
        let flags = OFlags::RDONLY | ALWAYS;
        let flags = if links == Links::Follow { flags } else { flags | OFlags::NOFOLLOW };
        return rustix::fs::openat(directory, path, flags, Mode::empty()).map(File::from);
    }
    let below = Dir::from_std_file(directory.try_clone().map_err(errno)?);
    if links == Links::Keep && below.symlink_metadata(path).map_err(errno)?.is_symlink() {
        return Err(Errno::LOOP);
    }
    let flags = i32::try_from(ALWAYS.bits()).unwrap_or_default();
    let opened = below.open_with(path, OpenOptions::new().read(true).custom_flags(flags));
    opened.map(cap_std::fs::File::into_std).map_err(errno)
}

/// Opens a resolved object: the very same one, whatever became of its path.
#[cfg(target_os = "linux")]
fn reopen(seen: &File, how: OFlags) -> rustix::io::Result<File> {
    rustix::fs::open(own_link(seen), how, Mode::empty()).map(File::from)
}

/// Opens a resolved object by its present path, if that still leads to it.
#[cfg(not(target_os = "linux"))]
fn reopen(seen: &File, how: OFlags) -> rustix::io::Result<File> {
    let path = rustix::fs::getpath(seen)?;
    let late = how - OFlags::TRUNC;
    let opened = File::from(rustix::fs::open(path, late | OFlags::NOFOLLOW, Mode::empty())?);
    let (was, is) = (fstat(seen)?, fstat(&opened)?);
    if (was.st_dev, was.st_ino) != (is.st_dev, is.st_ino) {
        return Err(Errno::BUSY);
    }
    if how.contains(OFlags::TRUNC) {
        rustix::fs::ftruncate(&opened, 0)?;
    }
    Ok(opened)
}

#[cfg(target_os = "linux")]
fn refuse_processes(file: &File) -> FsResult<()> {
    let system = fstatfs(file.as_fd()).map_err(io::Error::from).map_err(error)?;
    if system.f_type == PROCFS { Err(ErrorCode::NotPermitted.into()) } else { Ok(()) }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "the same shape as on Linux")]
fn refuse_processes(_: &File) -> FsResult<()> {
    Ok(())
}

/// The absolute path that `path` below `directory` stands for, as text for people.
pub(super) fn place(directory: &Dir, path: &str) -> FsResult<PathBuf> {
    Ok(real_path(&directory.dir).map_err(error)?.join(path))
}

/// Where an open object is now, as the kernel has it. Fails for what has no place any more.
pub(super) fn real_path(object: &File) -> io::Result<PathBuf> {
    let path = kernel_path(object)?;
    // What was cut off by unmounting has a path that starts nowhere.
    if path.is_absolute() { Ok(path) } else { Err(io::ErrorKind::NotFound.into()) }
}

#[cfg(target_os = "linux")]
fn kernel_path(object: &File) -> io::Result<PathBuf> {
    std::fs::read_link(own_link(object))
}

/// Where the kernel links to an open file of this process.
#[cfg(target_os = "linux")]
pub(super) fn own_link(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}

#[cfg(not(target_os = "linux"))]
fn kernel_path(object: &File) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = rustix::fs::getpath(object.as_fd())?;
    Ok(std::ffi::OsString::from_vec(path.into_bytes()).into())
}

/// An I/O error as WASI names it.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
pub(super) fn error(error: io::Error) -> FsError {
    code(&error).unwrap_or_else(|| ErrorCode::from(&error)).into()
}

/// The errors that WASI has names for and wasmtime-wasi has not.
pub(super) fn code(error: &io::Error) -> Option<ErrorCode> {
    match Errno::from_io_error(error)? {
        Errno::DQUOT => Some(ErrorCode::Quota),
        Errno::ROFS => Some(ErrorCode::ReadOnly),
        _ => None,
    }
}

/// An error of resolving as WASI names it: the kernel reports a path that leads out as "cross-device".
fn escape(errno: Errno) -> FsError {
    match errno {
        Errno::XDEV => ErrorCode::NotPermitted.into(),
        errno => error(errno.into()),
    }
}
