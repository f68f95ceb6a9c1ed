//! Sockets of a process whose system call waits for the watcher, the answers to such calls, and
//! registrations in the epoll instances of its process.
#![expect(unsafe_code, reason = "raw system calls; every one says why it is sound")]

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::thread;

use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use rustix::thread::UnshareFlags;

use super::{Notification, unshare};
use crate::confine::sys::check;

/// From `linux/pidfd.h`: the handle of a thread (Linux 6.9).
const PIDFD_THREAD: u32 = 0o200;
/// From `asm-generic/socket.h` (Linux 5.14).
const SO_NETNS_COOKIE: libc::c_int = 71;
/// From `linux/sockios.h`; libc lacks them, or has them with another type on musl.
const SIOCSIFADDR: libc::Ioctl = 0x8916;
const SIOCSIFNETMASK: libc::Ioctl = 0x891c;
const SIOCGIFINDEX: libc::Ioctl = 0x8933;

impl Notification {
    /// Returns whether the call still waits, so that its process is the one that made it.
    pub(crate) fn is_waiting(&self, listener: BorrowedFd<'_>) -> bool {
        let request = libc::SECCOMP_IOCTL_NOTIF_ID_VALID;
        // SAFETY: the request reads an identifier.
        check(unsafe { libc::ioctl(listener.as_raw_fd(), request, &raw const self.id) }).is_ok()
    }

    /// Returns the process's file with this number. Without handles of threads it is that of the first thread,
    /// whose table of files all threads share but in programs that ask otherwise.
    pub(crate) fn file(&self, number: libc::c_int) -> io::Result<OwnedFd> {
        let thread = PidfdFlags::from_bits_retain(PIDFD_THREAD);
        let handle = match pidfd_open(self.id_of(self.process)?, thread) {
            Ok(handle) => handle,
            Err(_) => pidfd_open(self.id_of(self.first_thread()?)?, PidfdFlags::empty())?,
        };
        Ok(pidfd_getfd(handle, number, PidfdGetfdFlags::empty())?)
    }

    fn id_of(&self, process: u32) -> io::Result<Pid> {
        let id = i32::try_from(process).ok().and_then(Pid::from_raw);
        id.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn first_thread(&self) -> io::Result<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process))?;
        let number = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
        number.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Puts `file` instead of the process's file with this number.
    pub(crate) fn put(
        &self,
        listener: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
        (number, close_on_exec): (libc::c_int, bool),
    ) -> io::Result<()> {
        let request = libc::seccomp_notif_addfd {
            id: self.id,
            flags: u32::try_from(libc::SECCOMP_ADDFD_FLAG_SETFD).map_err(io::Error::other)?,
            srcfd: file.as_raw_fd().cast_unsigned(),
            newfd: number.cast_unsigned(),
            newfd_flags: if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 },
        };
        let kind = libc::SECCOMP_IOCTL_NOTIF_ADDFD;
        // SAFETY: `request` is of the type that the kernel reads.
        check(unsafe { libc::ioctl(listener.as_raw_fd(), kind, &raw const request) }).map(drop)
    }

    /// Ends the call with an error number; 0 is success. The kernel does not execute it.
    pub(crate) fn end(&self, listener: BorrowedFd<'_>, error: i32) -> io::Result<()> {
        let mut response = libc::seccomp_notif_resp { id: self.id, val: 0, error: -error, flags: 0 };
        // SAFETY: `response` is of the type that the request reads.
        check(unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) })
            .map(drop)
    }
}

/// Returns the number of the network namespace of a socket.
pub(crate) fn network_of(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut number = [0; size_of::<u64>()];
    option(socket, (libc::SOL_SOCKET, SO_NETNS_COOKIE), &mut number)?;
    Ok(u64::from_ne_bytes(number))
}

/// Fills `value` with an option of a socket, and returns its size.
pub(crate) fn option(
    socket: BorrowedFd<'_>,
    (level, name): (libc::c_int, libc::c_int),
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `length` bytes to `value`.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut length)
    })?;
    usize::try_from(length).map_err(io::Error::other)
}

pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    (level, name): (libc::c_int, libc::c_int),
    value: &[u8],
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel reads `length` bytes of `value`.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), length) })
        .map(drop)
}

/// Connects a socket to an address as a process wrote it.
pub(crate) fn connect(socket: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    let length = libc::socklen_t::try_from(address.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel copies `length` bytes of `address`, of which it reads the fields itself.
    check(unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), length) }).map(drop)
}

/// Binds a socket to an address as a process wrote it.
pub(crate) fn bind(socket: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    let length = libc::socklen_t::try_from(address.len()).map_err(io::Error::other)?;
    // SAFETY: as for [`connect`].
    check(unsafe { libc::bind(socket.as_raw_fd(), address.as_ptr().cast(), length) }).map(drop)
}

/// Gives the loopback interface one more address.
pub(crate) fn add_to_loopback(address: IpAddr, index: usize) -> io::Result<()> {
    match address {
        IpAddr::V4(address) => add_v4(address, index),
        IpAddr::V6(address) => add_v6(address),
    }
}

fn add_v4(address: Ipv4Addr, index: usize) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut request = named(&format!("lo:{index}"));
    for (kind, value) in [(SIOCSIFADDR, address), (SIOCSIFNETMASK, Ipv4Addr::BROADCAST)] {
        let [port_high, port_low] = [0, 0];
        let [a, b, c, d] = value.octets();
        let fields = [port_high, port_low, a, b, c, d];
        // SAFETY: every value of the union's bytes is an address.
        let to = unsafe { &mut request.ifr_ifru.ifru_addr };
        to.sa_family = libc::sa_family_t::try_from(libc::AF_INET).map_err(io::Error::other)?;
        for (to, from) in to.sa_data.iter_mut().zip(fields) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        // SAFETY: the request is what the call reads.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), kind, &raw const request) })?;
    }
    Ok(())
}

fn add_v6(address: Ipv6Addr) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET6, SocketType::DGRAM, None)?;
    let mut request = named("lo");
    // SAFETY: the request is what the call reads and fills in.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGIFINDEX, &raw mut request) })?;
    let request = libc::in6_ifreq {
        ifr6_addr: libc::in6_addr { s6_addr: address.octets() },
        ifr6_prefixlen: u128::BITS,
        // SAFETY: the kernel set the index.
        ifr6_ifindex: unsafe { request.ifr_ifru.ifru_ifindex },
    };
    // SAFETY: the request is what the call reads.
    check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCSIFADDR, &raw const request) }).map(drop)
}

/// Returns a request about the interface `name`, which is shorter than the field.
pub(super) fn named(name: &str) -> libc::ifreq {
    // SAFETY: an all-zero request is valid.
    let mut request = unsafe { std::mem::zeroed::<libc::ifreq>() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        // `c_char` is unsigned on ARM.
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request
}

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
