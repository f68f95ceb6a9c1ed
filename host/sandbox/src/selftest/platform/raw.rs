//! System calls that only an escape attempt makes, in functions that do no harm if they succeed. Their results
//! are judged elsewhere.
#![expect(unsafe_code, reason = "raw system calls; every one says why it is sound")]

use std::ffi::{CString, c_long};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::Pid;

use crate::confine::sys::check;

/// Truncates a file without opening it.
pub(super) fn truncate(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `path` is a C string.
    check(unsafe { libc::truncate(path.as_ptr(), 0) }).map(drop)
}

/// Traces another process without stopping it; the trace ends with the caller.
pub(super) fn trace(process: Pid) -> io::Result<()> {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: takes numbers and touches no memory.
    check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, process.as_raw_nonzero().get(), nothing, nothing) })
        .map(drop)
}

/// Reads the memory of another process into `buffer`.
pub(super) fn memory(process: Pid, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let Ok(address) = usize::try_from(address) else { return Err(io::ErrorKind::InvalidInput.into()) };
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: buffer.len() };
    let process = process.as_raw_nonzero().get();
    // SAFETY: the local part is `buffer`, and the kernel checks the remote one.
    let read = unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    let read = check(c_long::try_from(read).unwrap_or(-1))?;
    Ok(usize::try_from(read).unwrap_or_default())
}

/// Reads the limits of another process; changes nothing.
pub(super) fn limits_of(process: Pid) -> io::Result<()> {
    // SAFETY: all-zero is a valid value, and the kernel fills it in.
    let mut limit = unsafe { std::mem::zeroed::<libc::rlimit>() };
    let process = process.as_raw_nonzero().get();
    // SAFETY: nothing is set, and `limit` has the size that the kernel writes.
    check(unsafe { libc::prlimit(process, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit) }).map(drop)
}

/// Creates a process in a new user namespace by the `clone` system call. The new process ends at once.
pub(super) fn clone_into_user_namespace() -> io::Result<()> {
    let flags = c_long::from(libc::CLONE_NEWUSER | libc::SIGCHLD);
    // SAFETY: without a separate stack the new process is a copy, as by `fork`, and this one has a single thread.
    let process = check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })?;
    if process == 0 {
        // SAFETY: ends the new process without running any handler.
        unsafe { libc::_exit(0) }
    }
    Ok(())
}

/// Types a character into a terminal, like its user.
pub(super) fn type_into(terminal: &File, character: u8) -> io::Result<()> {
    // SAFETY: reads one byte, which is there.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSTI, &raw const character) }).map(drop)
}

/// Unlocks a pseudo-terminal and returns the number of its other side.
pub(super) fn other_side(master: &File) -> io::Result<u32> {
    let (unlocked, mut number) = (0_i32, 0_u32);
    // SAFETY: each reads or writes one integer of this size.
    unsafe {
        check(libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked))?;
        check(libc::ioctl(master.as_raw_fd(), libc::TIOCGPTN, &raw mut number))?;
    }
    Ok(number)
}

pub(super) fn ignore_termination() {
    // SAFETY: installs no handler.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}

/// Kernel interfaces that have allowed escapes before, each called with an invalid object: an "invalid" error
/// shows that the interface is accessible.
pub(super) const INTERFACES: &[Interface] = &[
    ("io_uring", || ask(libc::SYS_io_uring_setup, 0)),
    ("bpf", || ask(libc::SYS_bpf, -1)),
    ("keyctl", || ask(libc::SYS_keyctl, -1)),
    ("userfaultfd", || ask(libc::SYS_userfaultfd, -1)),
    ("perf_event_open", || ask(libc::SYS_perf_event_open, 0)),
    ("open_by_handle_at", || ask(libc::SYS_open_by_handle_at, -1)),
];

/// The name of an interface, and a function that calls it.
type Interface = (&'static str, fn() -> io::Result<()>);

fn ask(call: c_long, first: c_long) -> io::Result<()> {
    // SAFETY: every pointer among the arguments is null, which the kernel refuses to follow.
    check(unsafe { libc::syscall(call, first, 0_usize, 0_usize, 0_usize, 0_usize) }).map(drop)
}
