//! System calls of Linux, in functions that are safe to call from a single-threaded process. Makes no
//! decisions: the callers decide which calls to make, and when.
#![expect(unsafe_code, reason = "raw system calls; every one says why it is sound")]

pub(crate) mod diagnostics;
mod sockets;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{OFlags, Stat};
use rustix::process::{Pid, Signal};
use rustix::thread::UnshareFlags;

pub(crate) use self::sockets::{
    Registration, add_to_loopback, bind, connect, exchange, network_of, option, set_option,
};
use super::check;

/// The flag for a handle that needs no right to its file.
pub(crate) const HANDLE: OFlags = OFlags::PATH;

/// Bytes per unit of `getrusage(2)`'s memory fields.
pub(crate) const PEAK_UNIT: u64 = 1 << 10;

pub(crate) fn last_signal() -> i32 {
    libc::SIGRTMAX()
}

pub(crate) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: unsound only for descriptor tables that other threads share; there are no others.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: RawFd) -> io::Result<()> {
    let first = libc::c_uint::try_from(first).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: called before anything owns a descriptor.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) }).map(drop)
}

/// Returns a descriptor that becomes readable when a child has ended; blocks the signal.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: `set` is initialised by `sigemptyset` before it is read; the descriptor is new.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
        let fd = check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Makes a mount read-only or writable, with all mounts below it if `recursive`.
pub(crate) fn set_read_only(mount: BorrowedFd<'_>, read_only: bool, recursive: bool) -> io::Result<()> {
    let mut attributes = libc::mount_attr { attr_set: 0, attr_clr: 0, propagation: 0, userns_fd: 0 };
    if read_only {
        attributes.attr_set = libc::MOUNT_ATTR_RDONLY;
    } else {
        attributes.attr_clr = libc::MOUNT_ATTR_RDONLY;
    }
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a C string and the attributes have the size that is given.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// Returns the ABI version of Landlock; `None` if the kernel has none.
pub(crate) fn landlock_version() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel reads no attributes and makes no descriptor.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// From `linux/sockios.h`; the type of libc's constant does not fit its own `ioctl` on musl.
const SIOCSIFFLAGS: libc::Ioctl = 0x8914;

/// Enables the loopback interface of a new network namespace.
pub(crate) fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    let mut request = sockets::named("lo");
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or_default();
    // SAFETY: the request is what SIOCSIFFLAGS reads.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCSIFFLAGS, &raw const request) }).map(drop)
}

/// Signals every process that this one may signal, except itself. Only for the first process of a PID
/// namespace, which sees no other processes.
pub(crate) fn signal_everybody(signal: Signal) -> io::Result<()> {
    if rustix::process::getpid() != Pid::INIT {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // SAFETY: takes numbers and touches no memory.
    check(unsafe { libc::kill(-1, signal.as_raw()) }).map(drop)
}

/// A system call that waits for the observer.
#[derive(Debug)]
pub(crate) struct Notification {
    id: u64,
    pub(crate) process: u32,
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 6],
}

impl Notification {
    /// Fills `buffer` with the process's memory at `place`, as far as it is mapped.
    pub(crate) fn read<'b>(&self, place: u64, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
        let process = libc::pid_t::try_from(self.process).map_err(io::Error::other)?;
        let place = usize::try_from(place).map_err(io::Error::other)?;
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // The kernel fills each part completely or not at all, so the parts end at page boundaries.
        let first = buffer.len().min(PAGE - place % PAGE);
        let part = |at: usize, length| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(place.wrapping_add(at)),
            iov_len: length,
        };
        let remote = [part(0, first), part(first, buffer.len() - first)];
        // SAFETY: the kernel writes at most `iov_len` bytes to `local`, and reads the memory of another process alone.
        let read = unsafe {
            libc::process_vm_readv(
                process,
                &raw const local,
                1,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        };
        let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
        Ok(buffer.get(..read).unwrap_or_default())
    }
}

/// From `linux/seccomp.h`.
const SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP: libc::c_ulong = 1;

/// The smallest page size in bytes.
const PAGE: usize = 4096;

/// Installs `program` in this process and its descendants, and returns the listener on which its calls wait. On
/// Linux 5.19 and later, non-fatal signals do not interrupt a waiting call: otherwise the call would be
/// repeated, and a runtime that sends itself signals would make no progress.
pub(crate) fn filter_with_listener(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let length = libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    let apply = |flags: libc::c_ulong| {
        // SAFETY: the kernel reads `len` instructions from `filter`, and makes a descriptor that is new.
        let made = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter)
        };
        let made = RawFd::try_from(check(made)?).map_err(io::Error::other)?;
        // SAFETY: as above.
        let listener = unsafe { OwnedFd::from_raw_fd(made) };
        // The listener and the caller run on one processor in turn (Linux 6.6), so that neither waits for
        // another processor. SAFETY: the flags are passed by value.
        unsafe {
            libc::ioctl(made, libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
        }
        Ok(listener)
    };
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let old = |error: io::Error| {
        if error.raw_os_error() == Some(libc::EINVAL) { apply(listener) } else { Err(error) }
    };
    apply(listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV).or_else(old)
}

pub(crate) fn next_notification(listener: BorrowedFd<'_>) -> io::Result<Notification> {
    // SAFETY: the kernel requires a zeroed value, and fills it in.
    let call = unsafe {
        let mut call = std::mem::zeroed::<libc::seccomp_notif>();
        check(libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call))?;
        call
    };
    let (number, arguments) = (call.data.nr.into(), call.data.args);
    Ok(Notification { id: call.id, process: call.pid, number, arguments })
}

pub(crate) fn let_go_on(listener: BorrowedFd<'_>, call: &Notification) -> io::Result<()> {
    let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).map_err(io::Error::other)?;
    let mut response = libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags };
    // SAFETY: `answer` is of the type that the request reads.
    check(unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) })
        .map(drop)
}
