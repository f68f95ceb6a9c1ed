//! The arguments of system calls that wait for the watcher: numbers, addresses and what they lead to.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::confine::sys::platform::Notification;

/// Converts an argument that the kernel reads as an `int`: its lower 32 bits.
pub(super) fn int(argument: u64) -> libc::c_int {
    let [a, b, c, d, ..] = argument.to_le_bytes();
    libc::c_int::from_le_bytes([a, b, c, d])
}

/// Returns the address argument of `connect`: a `sockaddr_in` or `sockaddr_in6`.
pub(super) fn address(call: &Notification) -> Option<SocketAddr> {
    parsed(read(call, &mut [0; size_of::<libc::sockaddr_in6>()])?)
}

/// Returns the address in a `sockaddr_in` or `sockaddr_in6`.
pub(super) fn parsed(bytes: &[u8]) -> Option<SocketAddr> {
    let family = libc::c_int::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let address = match family {
        libc::AF_INET => Ipv4Addr::from(*bytes.get(4..)?.first_chunk()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(*bytes.get(8..)?.first_chunk()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

/// Returns the path of the unix socket that `connect` names, from this process's view.
pub(super) fn named_socket(call: &Notification) -> Option<PathBuf> {
    socket_path(call, read(call, &mut [0; size_of::<libc::sockaddr_un>()])?)
}

/// Returns the address of a call of `connect`, cut to the size of `buffer`.
fn read<'b>(call: &Notification, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let [_, place, length, ..] = call.arguments;
    let length = usize::try_from(length).ok()?.min(buffer.len());
    call.read(place, buffer.get_mut(..length)?).ok()
}

/// Returns the path in a `sockaddr_un` of a process, from this process's view; none for an abstract name.
pub(super) fn socket_path(call: &Notification, address: &[u8]) -> Option<PathBuf> {
    let (family, path) = address.split_first_chunk()?;
    let path = path.split(|byte| *byte == 0).next().filter(|path| !path.is_empty())?;
    let is_unix = libc::c_int::from(u16::from_ne_bytes(*family)) == libc::AF_UNIX;
    // An absolute path replaces the directory.
    let directory = format!("/proc/{}/cwd", call.process);
    is_unix.then(|| Path::new(&directory).join(OsStr::from_bytes(path)))
}

/// Reports whether a socket of this network namespace listens on `port`, or receives datagrams there
/// (`proc_net(5)`).
pub(super) fn is_listened_to(port: u16) -> bool {
    let tables =
        ["tcp", "tcp6", "udp", "udp6"].map(|kind| std::fs::read_to_string(format!("/proc/self/net/{kind}")));
    let is_there = |socket: &str| {
        let mut fields = socket.split_whitespace().skip(1);
        let (local, remote) = (fields.next(), fields.next());
        let port_of = |address: Option<&str>| u16::from_str_radix(address?.rsplit_once(':')?.1, 16).ok();
        port_of(local) == Some(port) && port_of(remote) == Some(0)
    };
    tables.iter().flatten().any(|table| table.lines().any(is_there))
}
