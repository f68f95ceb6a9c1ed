//! Linux: its own system calls, each in a function that is safe to call from a process of a single thread. It refuses
//! to decide anything: what to call, and when, is the business of its callers.
#![expect(unsafe_code, reason = "raw system calls; every one says why it is sound")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{OFlags, Stat};
use rustix::process::{Pid, Signal};
use rustix::thread::UnshareFlags;

/// A handle that needs no right to what it is of.
pub(crate) const HANDLE: OFlags = OFlags::PATH;

/// Bytes in what `getrusage(2)` counts memory in.
pub(crate) const PEAK_UNIT: u64 = 1 << 10;

/// The highest number of a signal.
pub(crate) fn last_signal() -> i32 {
    libc::SIGRTMAX()
}

/// Device and inode.
pub(crate) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Leaves the given namespaces for new ones.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: unsound only for descriptor tables that other threads share; there are no others.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: RawFd) -> io::Result<()> {
    let first = libc::c_uint::try_from(first).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: called before anything owns a descriptor.
    check_long(unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) })
}

/// A descriptor that tells when a child has ended, in place of the signal itself.
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

/// Makes a mount read-only, or writable again, and all that is mounted below it if `recursive`.
pub(crate) fn set_read_only(mount: BorrowedFd<'_>, read_only: bool, recursive: bool) -> io::Result<()> {
    let mut attributes = libc::mount_attr { attr_set: 0, attr_clr: 0, propagation: 0, userns_fd: 0 };
    if read_only {
        attributes.attr_set = libc::MOUNT_ATTR_RDONLY;
    } else {
        attributes.attr_clr = libc::MOUNT_ATTR_RDONLY;
    }
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a C string and the attributes have the size that is given.
    check_long(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    })
}

/// The version of Landlock that the kernel offers; `None` where it offers none.
pub(crate) fn landlock_version() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel reads no attributes and makes no descriptor.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// As in `linux/sockios.h`; libc's constant has another type on musl than its own `ioctl` takes.
const SIOCSIFFLAGS: libc::Ioctl = 0x8914;

/// Turns the loopback interface of a new network namespace on.
pub(crate) fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // SAFETY: an all-zero request is valid; its name is a C string shorter than the field.
    let mut request = unsafe { std::mem::zeroed::<libc::ifreq>() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        // Without a sign on ARM.
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or_default();
    // SAFETY: the request is what SIOCSIFFLAGS reads.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCSIFFLAGS, &raw const request) }).map(drop)
}

/// Takes a capability away from everything that will be executed.
pub(crate) fn drop_from_bounding_set(capability: u32) -> io::Result<()> {
    let capability = libc::c_ulong::from(capability);
    // SAFETY: takes numbers and touches no memory.
    check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) }).map(drop)
}

/// Signals every process that this one may signal, but not itself. Only for the first process of
/// a namespace, to which everything else is invisible.
pub(crate) fn signal_everybody(signal: Signal) -> io::Result<()> {
    if rustix::process::getpid() != Pid::INIT {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // SAFETY: takes numbers and touches no memory.
    check(unsafe { libc::kill(-1, signal.as_raw()) }).map(drop)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_long(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
