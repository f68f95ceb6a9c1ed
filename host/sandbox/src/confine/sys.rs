//! System calls without a safe wrapper in a library, in functions that are safe to call from a single-threaded
//! process. Calls of only one system are in `platform`.
#![expect(unsafe_code, reason = "raw system calls; every one says why it is sound")]

#[cfg_attr(target_os = "linux", path = "sys/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "sys/platform/macos.rs")]
pub(crate) mod platform;

use std::io;
use std::os::fd::AsRawFd;

use rustix::process::Pid;

pub(crate) use self::platform::{HANDLE, close_from, identity};

pub(crate) enum Fork {
    Child,
    /// The parent process, with the child's id.
    Parent(Pid),
}

/// Forks. Only for the helper, which has a single thread: in a fork of a multi-threaded process no lock is
/// reliable.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: nothing is shared with other threads, since there are none.
    let pid = check(unsafe { libc::fork() })?;
    Ok(Pid::from_raw(pid).map_or(Fork::Child, Fork::Parent))
}

pub(crate) fn replace_input(file: &std::fs::File) -> io::Result<()> {
    // SAFETY: nothing owns descriptor 0; the library only ever borrows it.
    check(unsafe { libc::dup2(file.as_raw_fd(), 0) }).map(drop)
}

pub(crate) fn replace_output(file: &std::fs::File) -> io::Result<()> {
    // SAFETY: nothing owns descriptor 1; the library only ever borrows it.
    check(unsafe { libc::dup2(file.as_raw_fd(), 1) }).map(drop)
}

/// Resets every signal to its default action and unblocks all signals: a command would inherit ignored and
/// blocked signals.
pub(crate) fn default_signals() {
    for signal in 1..=platform::last_signal() {
        // SAFETY: no handler is installed. KILL, STOP and those of the C library itself refuse.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: `none` is initialised by `sigemptyset` before it is read; it cannot fail.
    unsafe {
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Returns the peak memory of any ended child of this process, in bytes.
pub(crate) fn peak_of_children() -> u64 {
    // SAFETY: all-zero is a valid value, and the kernel fills it in.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    u64::try_from(usage.ru_maxrss).unwrap_or_default() * platform::PEAK_UNIT
}

/// Returns the result of a call, or its error if it is negative.
pub(crate) fn check<T: Copy + Into<libc::c_long>>(result: T) -> io::Result<T> {
    if result.into() < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
