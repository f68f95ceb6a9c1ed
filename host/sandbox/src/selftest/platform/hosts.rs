//! Attempts of a process that is granted one host, a port of this machine: to reach the port beside it.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SendFlags, SocketType};

use super::tried::Brief;
use crate::confine::sys::platform as sys;
use crate::selftest::Outcome;

/// Returns a connection to the granted host, which carries bytes in both directions.
fn granted(brief: &Brief) -> io::Result<OwnedFd> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, brief.granted))?;
    stream.write_all(b"x")?;
    stream.read_exact(&mut [0])?;
    Ok(stream.into())
}

/// The start of the reason why not even the granted host is reached.
pub(super) const UNREACHED: &str = "not even the granted host is reached: ";

/// Makes an attempt with a connection to the granted host. Without one nothing is reached at all.
fn with_granted(brief: &Brief, act: impl FnOnce(OwnedFd) -> Outcome) -> Outcome {
    let not_even = |error| Outcome::Held(format!("{UNREACHED}{error}"));
    granted(brief).map_or_else(not_even, act)
}

pub(super) fn past(brief: &Brief) -> Outcome {
    let to = |address: std::net::IpAddr| TcpStream::connect(SocketAddr::new(address, brief.closed)).map(drop);
    with_granted(brief, |_| {
        Outcome::by_any([
            ("it was connected to", to(Ipv4Addr::LOCALHOST.into())),
            ("it was connected to by IPv6", to(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into())),
            ("it was connected to without an address", to(Ipv6Addr::UNSPECIFIED.into())),
        ])
    })
}

pub(super) fn unconnected(brief: &Brief) -> Outcome {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, brief.closed));
    let sent = |flags| {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        Ok(rustix::net::sendto(&socket, b"x", flags, &address).map(drop)?)
    };
    let fast = SendFlags::from_bits_retain(libc::MSG_FASTOPEN.cast_unsigned());
    let quiet = SendFlags::NOSIGNAL;
    with_granted(brief, |_| {
        Outcome::by_any([
            ("it was sent to", sent(quiet)),
            ("a connection was opened fast", sent(fast | quiet)),
        ])
    })
}

pub(super) fn led_elsewhere(brief: &Brief) -> Outcome {
    with_granted(brief, |socket| {
        // The family of no address, which disconnects.
        let disconnected = sys::connect(socket.as_fd(), &[0; 16]);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, brief.closed));
        let connected = rustix::net::connect(&socket, &address).map_err(io::Error::from);
        Outcome::by_any([("it was disconnected", disconnected), ("it was connected elsewhere", connected)])
    })
}

pub(super) fn opened(brief: &Brief) -> Outcome {
    with_granted(brief, |socket| {
        // Both fail in the kernel for a connected socket.
        let _ = sys::connect(socket.as_fd(), &[0; 16]);
        Outcome::by("it was opened", rustix::net::listen(&socket, 1).map_err(Into::into))
    })
}
