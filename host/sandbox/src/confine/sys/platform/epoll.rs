//! Registrations in the epoll instances of another process.
#![expect(unsafe_code, reason = "raw system calls; every one says why it is sound")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::thread;

use rustix::thread::UnshareFlags;

use super::{check, unshare};

/// A registration in an epoll instance.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) epoll: OwnedFd,
    pub(crate) events: u32,
    pub(crate) data: u64,
}

/// Registers the file `new` instead of `old`, as a process would that has it under `number`. An epoll instance
/// knows a file by itself and its number, so this takes a thread with a table of files of its own.
pub(crate) fn exchange(
    registrations: &[Registration],
    number: RawFd,
    (old, new): (BorrowedFd<'_>, BorrowedFd<'_>),
) -> io::Result<()> {
    let files = [old.as_raw_fd(), new.as_raw_fd()];
    thread::scope(|scope| {
        let exchanging = move || {
            unshare(UnshareFlags::FILES)?;
            exchange_here(registrations, number, files)
        };
        let thread = thread::Builder::new().spawn_scoped(scope, exchanging)?;
        thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })
}

/// Must run on a thread whose table of files ends with it: overwrites `number`.
fn exchange_here(registrations: &[Registration], number: RawFd, [old, new]: [RawFd; 2]) -> io::Result<()> {
    // Out of the way of `number`.
    // SAFETY: makes a descriptor that is new, and closes with the thread's table.
    let above = |file: RawFd| check(unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, number + 1) });
    let (old, new) = (above(old)?, above(new)?);
    for Registration { epoll, events, data } in registrations {
        let epoll = above(epoll.as_raw_fd())?;
        let mut event = libc::epoll_event { events: *events, u64: *data };
        for (file, action) in [(old, libc::EPOLL_CTL_DEL), (new, libc::EPOLL_CTL_ADD)] {
            // SAFETY: what has this number in the thread's own table is not used on the thread.
            check(unsafe { libc::dup2(file, number) })?;
            // SAFETY: the kernel reads the event.
            check(unsafe { libc::epoll_ctl(epoll, action, number, &raw mut event) })?;
        }
    }
    Ok(())
}
