//! Opens a path as a person would follow it, links and all, for reading only. Used solely
//! where reading is granted everywhere. It refuses to open anything but files and directories:
//! opening a FIFO or a device does something already.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, OFlags, fstat, fstatfs};
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{FsError, FsResult};

/// `PROC_SUPER_MAGIC` of `linux/magic.h`: `/proc`, where a process's environment and memory are files.
#[cfg(target_os = "linux")]
const PROCFS: i64 = 0x9fa0;

/// How a file or directory is opened; nothing waits, should it have become something else.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens the file or directory that `path` leads to; a link at its end only where `links` says so.
pub(super) fn open(directory: &Dir, path: &str, links: Links) -> FsResult<File> {
    let seen = glance(directory, path, links)?;
    match FileType::from_raw_mode(fstat(&seen).map_err(io::Error::from).map_err(error)?.st_mode) {
        FileType::RegularFile | FileType::Directory => read(&seen).map_err(error),
        FileType::Symlink => Err(ErrorCode::Loop.into()),
        _ => Err(ErrorCode::Unsupported.into()),
    }
}

/// A handle of what `path` leads to that can be asked about and not read.
pub(super) fn glance(directory: &Dir, path: &str, links: Links) -> FsResult<File> {
    #[cfg(target_os = "linux")]
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = READ;
    let flags = if links == Links::Follow { flags } else { flags | OFlags::NOFOLLOW };
    let file = open_without_magic(&place(directory, path)?, flags).map_err(error)?;
    refuse_processes(&file)?;
    Ok(file)
}

/// Whether a link at the end of a path is followed. Those before it always are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    Follow,
    Keep,
}

/// The absolute path that `path` below `directory` stands for, as text for people.
pub(super) fn place(directory: &Dir, path: &str) -> FsResult<PathBuf> {
    Ok(real_path(directory).map_err(error)?.join(path))
}

/// Opens for reading what was only looked at so far: the very same file, whatever became of its path.
#[cfg(target_os = "linux")]
fn read(seen: &File) -> io::Result<File> {
    Ok(rustix::fs::open(own_link(seen), READ, Mode::empty())?.into())
}

/// Without `O_PATH`, it is open already.
#[cfg(not(target_os = "linux"))]
fn read(seen: &File) -> io::Result<File> {
    seen.try_clone()
}

/// Opens `path`, following links that are text and none of the kernel's own (`/proc/self/fd/3`),
/// which lead to whatever a process has open.
#[cfg(target_os = "linux")]
fn open_without_magic(path: &std::path::Path, flags: OFlags) -> io::Result<File> {
    use rustix::fs::{CWD, ResolveFlags, openat2};
    Ok(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?.into())
}

#[cfg(not(target_os = "linux"))]
fn open_without_magic(path: &std::path::Path, flags: OFlags) -> io::Result<File> {
    Ok(rustix::fs::openat(rustix::fs::CWD, path, flags, Mode::empty())?.into())
}

/// Refuses the file system of processes: it would show a guest haft's environment and memory.
#[cfg(target_os = "linux")]
pub(super) fn refuse_processes(file: &File) -> FsResult<()> {
    let system = fstatfs(file.as_fd()).map_err(io::Error::from).map_err(error)?;
    if system.f_type == PROCFS { Err(ErrorCode::NotPermitted.into()) } else { Ok(()) }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "the same shape as on Linux")]
pub(super) fn refuse_processes(_: &File) -> FsResult<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn real_path(directory: &Dir) -> io::Result<PathBuf> {
    std::fs::read_link(own_link(&directory.dir))
}

/// Where the kernel links to an open file of this process.
#[cfg(target_os = "linux")]
fn own_link(file: &File) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

#[cfg(not(target_os = "linux"))]
fn real_path(directory: &Dir) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = rustix::fs::getpath(directory.dir.as_fd())?;
    Ok(std::ffi::OsString::from_vec(path.into_bytes()).into())
}

/// An I/O error as WASI names it.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
pub(super) fn error(error: io::Error) -> FsError {
    ErrorCode::from(&error).into()
}
