//! Opens a path as a person would follow it, links and all, for reading only. Used solely
//! where reading is granted everywhere.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, fstatfs};
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{FsError, FsResult};

/// `PROC_SUPER_MAGIC` of `linux/magic.h`: `/proc`, where a process's environment and memory are files.
#[cfg(target_os = "linux")]
const PROCFS: i64 = 0x9fa0;

/// Opens what `path` leads to, without ever waiting for a FIFO's other end.
pub(super) fn open(directory: &Dir, path: &str) -> FsResult<File> {
    resolve(directory, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
}

/// A handle of what `path` leads to that can be asked about and not read.
pub(super) fn glance(directory: &Dir, path: &str) -> FsResult<File> {
    #[cfg(target_os = "linux")]
    let flags = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    resolve(directory, path, flags)
}

/// The absolute path that `path` below `directory` stands for, as text for people.
pub(super) fn place(directory: &Dir, path: &str) -> FsResult<PathBuf> {
    Ok(real_path(directory).map_err(error)?.join(path))
}

fn resolve(directory: &Dir, path: &str, flags: OFlags) -> FsResult<File> {
    let path = place(directory, path)?;
    let file = open_without_magic(&path, flags | OFlags::CLOEXEC).map_err(error)?;
    refuse_processes(&file)?;
    Ok(file)
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

/// Refuses the file system of processes: it would show a guest haft's environment.
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

#[cfg(target_os = "linux")]
fn real_path(directory: &Dir) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", directory.dir.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn real_path(directory: &Dir) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = rustix::fs::getpath(directory.dir.as_fd())?;
    Ok(std::ffi::OsString::from_vec(path.into_bytes()).into())
}

/// An I/O error as WASI names it.
pub(super) fn error(error: io::Error) -> FsError {
    ErrorCode::from(&error).into()
}
