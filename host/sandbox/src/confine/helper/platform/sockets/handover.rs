//! Puts a socket of haft's own network instead of one of the command's, with its flags and options.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::registrations::Numbers;
use super::{is_waited_for, number, set_waiting};
use crate::confine::sys::platform::{self as sys, Notification};

/// Bytes of the longest copied option: the name of a congestion control, and a time.
const MAX_OPTION: usize = 16;

/// The options that programs set before they connect. An option that the kernel lacks is left out.
const OPTIONS: &[(libc::c_int, libc::c_int)] = &[
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_LINGER),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
    (libc::IPPROTO_IP, libc::IP_RECVERR),
    (libc::IPPROTO_IP, libc::IP_TOS),
    // Which the one before sets too.
    (libc::SOL_SOCKET, libc::SO_PRIORITY),
    (libc::IPPROTO_IP, libc::IP_TTL),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
    (libc::IPPROTO_TCP, libc::TCP_CORK),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
];

/// Options whose value the kernel doubles when it is set.
const DOUBLED: &[(libc::c_int, libc::c_int)] =
    &[(libc::SOL_SOCKET, libc::SO_RCVBUF), (libc::SOL_SOCKET, libc::SO_SNDBUF)];

/// Puts `connected` instead of `socket`, on which `call` waits, and instead of each copy that its process has of it.
pub(super) fn hand_over(
    listener: BorrowedFd<'_>,
    (call, socket): (&Notification, &OwnedFd),
    connected: &OwnedFd,
) -> Result<(), Errno> {
    for option in OPTIONS {
        copy(socket.as_fd(), connected.as_fd(), *option);
    }
    for option in DOUBLED {
        copy_half(socket.as_fd(), connected.as_fd(), *option);
    }
    set_waiting(connected, is_waited_for(socket)?)?;
    let numbers = Numbers::find(call, socket)?;
    for copy in &numbers.copies {
        let registered = numbers.registrations(call, *copy);
        let place = (*copy, is_closed_on_exec(call.process, *copy));
        call.put(listener, connected.as_fd(), place).map_err(|error| number(&error))?;
        if !registered.is_empty() {
            let files = (socket.as_fd(), connected.as_fd());
            sys::exchange(&registered, *copy, files).map_err(|error| number(&error))?;
        }
    }
    Ok(())
}

/// Sets an option as `from` has it, if `to` has another value: some change more than their value when they are set.
fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>, option: (libc::c_int, libc::c_int)) {
    let (mut wanted, mut given) = ([0; MAX_OPTION], [0; MAX_OPTION]);
    let Ok(length) = sys::option(from, option, &mut wanted) else { return };
    if sys::option(to, option, &mut given).is_ok() && wanted != given {
        // The connection works without it.
        let _ = sys::set_option(to, option, wanted.get(..length).unwrap_or_default());
    }
}

/// Sets the size of a buffer, if the command set one. The kernel also adapts sizes by itself, on a socket in use.
fn copy_half(from: BorrowedFd<'_>, to: BorrowedFd<'_>, option: (libc::c_int, libc::c_int)) {
    let (mut wanted, mut usual) = ([0; size_of::<u32>()], [0; size_of::<u32>()]);
    let fresh = rustix::net::sockopt::socket_domain(from)
        .and_then(|domain| rustix::net::socket(domain, rustix::net::SocketType::STREAM, None));
    let Ok(fresh) = fresh else { return };
    let read = |socket, value: &mut [u8]| sys::option(socket, option, value).is_ok();
    if read(from, &mut wanted) && read(fresh.as_fd(), &mut usual) && wanted != usual {
        let half = u32::from_ne_bytes(wanted) / 2;
        // The connection works without it.
        let _ = sys::set_option(to, option, &half.to_ne_bytes());
    }
}

/// Returns whether a process's descriptor is closed when it executes another program (`proc_pid_fdinfo(5)`).
fn is_closed_on_exec(process: u32, descriptor: libc::c_int) -> bool {
    let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")).unwrap_or_default();
    let flags =
        text.lines().find_map(|line| i32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    flags.is_none_or(|flags| flags & libc::O_CLOEXEC != 0)
}
