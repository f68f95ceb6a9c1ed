//! The few system calls that no library offers safely and that every system has, each in a function that is safe to
//! call from a process of a single thread. What only one system has is in `platform`.
#![expect(unsafe_code, reason = "raw system calls; every one says why it is sound")]

#[cfg_attr(target_os = "linux", path = "sys/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "sys/platform/macos.rs")]
pub(crate) mod platform;

use std::io;
use std::os::fd::AsRawFd;

use rustix::process::Pid;

pub(crate) use self::platform::{HANDLE, close_from, identity};

/// What [`fork`] returned in.
pub(crate) enum Fork {
    /// The new process.
    Child,
    /// The old one, and who the new one is.
    Parent(Pid),
}

/// Copies this process. Only for the helper, which has a single thread: in a copy of a process
/// with more, no lock could be relied on.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: nothing is shared with other threads, since there are none.
    let pid = check(unsafe { libc::fork() })?;
    Ok(Pid::from_raw(pid).map_or(Fork::Child, Fork::Parent))
}

/// Puts another file in the place of standard input.
pub(crate) fn replace_input(file: &std::fs::File) -> io::Result<()> {
    // SAFETY: nothing owns descriptor 0; the library only ever borrows it.
    check(unsafe { libc::dup2(file.as_raw_fd(), 0) }).map(drop)
}

/// Gives every signal its default meaning back and lets all of them through: what is ignored or held
/// back here would be so for what is run.
pub(crate) fn default_signals() {
    for signal in 1..=platform::last_signal() {
        // SAFETY: no handler is installed. KILL, STOP and those of the C library itself refuse.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: `none` is initialised by `sigemptyset` before it is read. Failing is impossible for it.
    unsafe {
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// The most memory that any ended child of this process had, bytes.
pub(crate) fn peak_of_children() -> u64 {
    // SAFETY: all-zero is a valid value, and the kernel fills it in.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    u64::try_from(usage.ru_maxrss).unwrap_or_default() * platform::PEAK_UNIT
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
