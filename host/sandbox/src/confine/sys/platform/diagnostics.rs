//! The kernel's numbers about TCP sockets (`sock_diag(7)`), of which a socket of netlink tells.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{
    Timeout, set_socket_recv_buffer_size, set_socket_timeout, socket_cookie, socket_domain,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// The groups of ended TCP sockets of IPv4 and IPv6 (`linux/sock_diag.h`), one bit each.
const ENDED: u32 = 0b101;
/// Bytes for reports that were not received yet: several hundred. The kernel may give less.
const QUEUE: usize = 1 << 20;
/// Time after which waiting for reports ends, so that the caller can look around.
const LOOK: Duration = Duration::from_secs(1);
/// Time limit for an answer, which the kernel gives at once.
const ANSWER: Duration = Duration::from_millis(100);
/// Bytes of the longest report or answer, with attributes that are not used.
const MAX_MESSAGE: usize = 8192;

/// From `linux/sock_diag.h` and `linux/inet_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
/// Bytes of `nlmsghdr`, `inet_diag_msg`, and the position of `inet_diag_sockid` in the latter.
const HEAD: usize = 16;
const SEQUENCE: usize = 8;
const MESSAGE: usize = 72;
const IDENTITY: usize = 4;
/// Positions in `tcp_info`; the last two are there since Linux 4.19.
const BYTES_RECEIVED: usize = 128;
const BYTES_SENT: usize = 200;
const BYTES_RETRANSMITTED: usize = 208;

/// A TCP socket of this process's network namespace.
#[derive(Debug)]
pub(crate) struct Socket {
    /// The number that no other socket has or had.
    pub(crate) number: u64,
    family: AddressFamily,
    /// The bytes of `inet_diag_sockid`.
    identity: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) number: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Socket {
    /// Returns the identity of a socket that is connected, or is being connected to `address`.
    pub(crate) fn of(socket: &OwnedFd, address: SocketAddr) -> io::Result<Self> {
        let (number, family) = (socket_cookie(socket)?, socket_domain(socket)?);
        let own = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
        // A connection through another host is to that one.
        let peer = rustix::net::getpeername(socket).ok().flatten();
        let address = peer.and_then(|peer| SocketAddr::try_from(peer).ok()).unwrap_or(address);
        let other = match address.ip() {
            IpAddr::V4(address) if own.is_ipv6() => address.to_ipv6_mapped().into(),
            address => address,
        };
        let ports = [own.port(), address.port()].map(u16::to_be_bytes).concat();
        let addresses = [own.ip(), other].map(bytes).concat();
        let interface = 0_u32.to_ne_bytes();
        let identity = [&ports[..], &addresses, &interface, &number.to_ne_bytes()].concat();
        Ok(Self { number, family, identity })
    }
}

/// Returns the 16 bytes of an address.
fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => [&address.octets()[..], &[0; 12]].concat(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Returns a socket of netlink that receives a report about every TCP socket that ends.
pub(crate) fn ended_sockets() -> io::Result<OwnedFd> {
    let socket = opened(ENDED, LOOK)?;
    // The kernel's limit counts.
    let _ = set_socket_recv_buffer_size(&socket, QUEUE);
    Ok(socket)
}

/// Returns a socket of netlink for [`ask`].
pub(crate) fn queries() -> io::Result<OwnedFd> {
    opened(0, ANSWER)
}

fn opened(groups: u32, limit: Duration) -> io::Result<OwnedFd> {
    let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(family, SocketType::RAW, flags, Some(SOCK_DIAG))?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(limit))?;
    Ok(socket)
}

/// Waits for reports, for at most a second.
pub(crate) fn reports(socket: &OwnedFd) -> io::Result<Vec<Counted>> {
    let mut buffer = [0; MAX_MESSAGE];
    Ok(counted(received(socket, &mut buffer)?))
}

/// Returns whether reports may follow after this error of [`reports`].
pub(crate) fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::AGAIN, Errno::INTR, Errno::NOBUFS];
    Errno::from_io_error(error).is_some_and(|error| passing.contains(&error))
}

/// Returns the bytes of an open socket; `None` if it has ended.
pub(crate) fn ask(queries: &OwnedFd, socket: &Socket) -> io::Result<Option<Counted>> {
    let family = u8::try_from(socket.family.as_raw()).map_err(io::Error::other)?;
    let protocol = u8::try_from(libc::IPPROTO_TCP).map_err(io::Error::other)?;
    let attributes = 1 << (INET_DIAG_INFO - 1);
    let request =
        [&[family, protocol, attributes, 0][..], &u32::MAX.to_ne_bytes(), &socket.identity].concat();
    let length = u32::try_from(HEAD + request.len()).map_err(io::Error::other)?;
    let flags = u16::try_from(libc::NLM_F_REQUEST).map_err(io::Error::other)?;
    let sequence = u32_at(&socket.number.to_ne_bytes(), 0).unwrap_or_default();
    let head = [&length.to_ne_bytes()[..], &SOCK_DIAG_BY_FAMILY.to_ne_bytes(), &flags.to_ne_bytes()].concat();
    let whole = [&head[..], &sequence.to_ne_bytes(), &0_u32.to_ne_bytes(), &request].concat();
    rustix::net::send(queries, &whole, SendFlags::empty())?;
    let mut buffer = [0; MAX_MESSAGE];
    loop {
        let answer = received(queries, &mut buffer)?;
        if u32_at(answer, SEQUENCE) == Some(sequence) {
            return Ok(counted(answer).into_iter().find(|counted| counted.number == socket.number));
        }
    }
}

fn received(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<&[u8]> {
    let (length, _) = rustix::net::recv(socket, &mut *buffer, RecvFlags::empty())?;
    Ok(buffer.get(..length).unwrap_or_default())
}

/// Returns the numbers in the messages of `bytes`; leaves out others, such as errors.
fn counted(mut bytes: &[u8]) -> Vec<Counted> {
    let mut all = Vec::new();
    while let Some((message, rest)) = part(bytes, u32_at(bytes, 0).unwrap_or_default()) {
        all.extend(number_of(message));
        bytes = rest;
    }
    all
}

fn number_of(message: &[u8]) -> Option<Counted> {
    let kind = u16_at(message, 4).filter(|kind| *kind == SOCK_DIAG_BY_FAMILY);
    let body = kind.and(message.get(HEAD..))?;
    // After two ports, two addresses and an interface.
    let number = u64_at(body, IDENTITY + 2 * 2 + 2 * 16 + 4)?;
    let mut attributes = body.get(MESSAGE..)?;
    while let Some((attribute, rest)) = part(attributes, u16_at(attributes, 0)?.into()) {
        if u16_at(attribute, 2) == Some(INET_DIAG_INFO) {
            let info = attribute.get(4..)?;
            let sent = u64_at(info, BYTES_SENT)?.checked_sub(u64_at(info, BYTES_RETRANSMITTED)?)?;
            return Some(Counted { number, sent, received: u64_at(info, BYTES_RECEIVED)? });
        }
        attributes = rest;
    }
    None
}

/// Splits the first `length` bytes off, and what fills them up to four.
fn part(bytes: &[u8], length: u32) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(length).ok().filter(|length| *length >= 4)?;
    let part = bytes.get(..length)?;
    Some((part, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(place..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(place..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], place: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(place..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// The kernel reports the bytes of open and ended sockets, for a transfer of known size.
    #[test]
    fn an_open_and_an_ended_socket_have_their_bytes() {
        for place in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let (Ok(ended), Ok(queries)) = (ended_sockets(), queries()) else {
                // This kernel does not report them.
                return;
            };
            let client = OwnedFd::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let socket = Socket::of(&client, listener.local_addr().unwrap()).unwrap();
            let (mut client, (mut server, _)) = (TcpStream::from(client), listener.accept().unwrap());
            client.write_all(&[1; 1234]).unwrap();
            server.write_all(&vec![2; 56789]).unwrap();
            let mut buffer = vec![0; 56789];
            client.read_exact(&mut buffer).unwrap();
            let counted = ask(&queries, &socket).unwrap().unwrap();
            assert_eq!((counted.sent, counted.received), (1234, 56789));
            drop((server, client));
            let report = std::iter::repeat_with(|| reports(&ended).unwrap_or_default()).flatten();
            let counted = report.filter(|counted| counted.number == socket.number).take(1).last().unwrap();
            assert!(counted.sent == 1234 && (56789..=56790).contains(&counted.received));
            assert_eq!(ask(&queries, &socket).unwrap(), None);
        }
    }

    #[test]
    fn no_bytes_are_a_message() {
        for length in 0..200 {
            assert_eq!(counted(&vec![0xff; length]), []);
            assert_eq!(counted(&vec![0; length]), []);
        }
    }
}
