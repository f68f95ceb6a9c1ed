//! The sockets of a command that is granted single hosts or services. Calls of `connect`, `bind` and `listen` wait for
//! the watcher, which executes them itself on the command's socket, in the network namespace, or puts a connected
//! socket of haft's own network in its place.
//!
//! # Why no such call is let through to the kernel
//! The command can change an address, and exchange a descriptor, after both were judged. A socket that was handed over
//! belongs to the machine's network: in the kernel's hands, a call of `connect` could lead it anywhere, `bind` would take
//! a port, and `listen` would open it. So the address is copied once, the file is taken by `pidfd_getfd(2)`, and only
//! those two are used. `sendto(2)` with `MSG_FASTOPEN`, which connects too, and the options that lead packets elsewhere
//! are refused by the filter of system calls.

mod handover;
mod services;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{
    Timeout, set_socket_reuseaddr, socket_domain, socket_error, socket_protocol, socket_timeout, socket_type,
};
use rustix::net::{AddressFamily, SocketType};

use self::handover::Defaults;
use self::services::Services;
use super::arguments::{int, parsed};
use crate::confine::egress::message::{Reply, Request};
use crate::confine::policy::Policy;
use crate::confine::sys::platform::{self as sys, Notification};
use crate::confine::wire::{self, CONNECT};

/// Limit on the calls that wait at one time; the host has the same.
const MAX_WAITING: usize = 256;
/// Bytes of the longest address (`sockaddr_storage`).
const MAX_ADDRESS: usize = 128;
/// The port of name servers.
pub(super) const NAMES_PORT: u16 = 53;

/// States of TCP, from `net/tcp_states.h`.
const SYN_SENT: u8 = 2;
const SYN_RECEIVED: u8 = 3;
const CLOSED: u8 = 7;

pub(super) struct Sockets {
    /// The host; `None` once it is gone, and without hosts.
    outside: Option<OwnedFd>,
    /// Whether connections leave the namespace through the host.
    is_held: bool,
    services: Services,
    network: u64,
    /// The addresses at which names are answered.
    servers: Vec<IpAddr>,
    /// Whether a socket of the namespace has listened.
    has_listened: bool,
    asked: BTreeMap<u64, Waiting>,
    /// The calls that wait for a connection inside of the namespace.
    inside: Vec<Waiting>,
    count: u64,
    defaults: Defaults,
}

struct Waiting {
    call: Notification,
    socket: OwnedFd,
}

enum Next {
    Done,
    /// It waits for the socket.
    Inside,
    /// It waits for the host.
    Outside(u64),
}

struct Found {
    domain: AddressFamily,
    is_tcp: bool,
    /// Whether it belongs to the command's network namespace.
    is_inside: bool,
    state: u8,
}

impl Sockets {
    /// Returns the sockets of a command that uses the same network namespace as this process.
    pub(super) fn new(policy: &Policy, outside: Option<OwnedFd>, servers: Vec<IpAddr>) -> Result<Self> {
        let own = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        let network = sys::network_of(own.as_fd()).context("cannot tell network namespaces apart")?;
        Ok(Self {
            outside,
            is_held: !policy.hosts.is_empty(),
            services: Services::new(policy),
            network,
            servers,
            has_listened: false,
            asked: BTreeMap::new(),
            inside: Vec::new(),
            count: 0,
            defaults: Defaults::default(),
        })
    }

    pub(super) fn is_for(call: &Notification) -> bool {
        [libc::SYS_connect, libc::SYS_bind, libc::SYS_listen].contains(&call.number)
    }

    /// Answers a call, now or later.
    pub(super) fn take(&mut self, listener: BorrowedFd<'_>, call: Notification) {
        let [number, ..] = call.arguments;
        let next = match call.file(int(number)) {
            // The number of the process was not used again, so it is its file.
            Ok(socket) if call.is_waiting(listener) => self.tried(&call, &socket).map(|next| (next, socket)),
            Ok(_) => return,
            Err(_) => Err(Errno::BADF),
        };
        match next {
            Ok((Next::Done, _)) => end(listener, &call, 0),
            Ok((Next::Inside, socket)) => self.inside.push(Waiting { call, socket }),
            Ok((Next::Outside(id), socket)) => _ = self.asked.insert(id, Waiting { call, socket }),
            Err(error) => end(listener, &call, error.raw_os_error()),
        }
    }

    /// Returns the socket at `path`, without links, if it is not the socket of a granted service.
    pub(super) fn refused_service(&self, path: &Path) -> Option<PathBuf> {
        self.services.refused(path)
    }

    fn tried(&mut self, call: &Notification, socket: &OwnedFd) -> Result<Next, Errno> {
        let mut buffer = [0; MAX_ADDRESS];
        if call.number == libc::SYS_bind {
            return self.bind(socket, argument(call, &mut buffer)?);
        }
        let domain = socket_domain(socket)?;
        if domain == AddressFamily::UNIX && call.number == libc::SYS_connect {
            let address = argument(call, &mut buffer)?;
            return self.services.connect(call, socket, address).map(|()| Next::Done);
        }
        let found = self.found(socket, domain)?;
        if call.number == libc::SYS_listen {
            return self.listen(&found, socket, int(call.arguments[1]));
        }
        let bytes = argument(call, &mut buffer)?;
        match parsed(bytes) {
            Some(address) if found.is_tcp && !self.stays_inside(&found, address) => {
                self.ask(&found, wait(socket)?, address).map(Next::Outside)
            }
            _ if found.is_inside => self.connect(socket, bytes),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    fn found(&self, socket: &OwnedFd, domain: AddressFamily) -> Result<Found, Errno> {
        if ![AddressFamily::INET, AddressFamily::INET6].contains(&domain) {
            return Err(Errno::ACCESS);
        }
        let protocol = socket_protocol(socket)?.map(|protocol| protocol.as_raw().get());
        let is_tcp = [libc::IPPROTO_TCP, libc::IPPROTO_MPTCP]
            .iter()
            .any(|known| protocol == Some(known.cast_unsigned()));
        let is_tcp = is_tcp && socket_type(socket)? == SocketType::STREAM;
        let network = sys::network_of(socket.as_fd()).map_err(|error| number(&error))?;
        let mut state = [CLOSED];
        if is_tcp {
            // The first byte of `tcp_info`.
            sys::option(socket.as_fd(), (libc::IPPROTO_TCP, libc::TCP_INFO), &mut state)
                .map_err(|error| number(&error))?;
        }
        Ok(Found { domain, is_tcp, is_inside: network == self.network, state: state[0] })
    }

    /// Returns whether a connection is not the host's to open: the command's own servers, those of names, and sockets
    /// of the namespace that are in use.
    fn stays_inside(&self, found: &Found, address: SocketAddr) -> bool {
        let is_own = || self.has_listened && is_own_server(address);
        let is_names = || self.servers.contains(&address.ip()) && address.port() == NAMES_PORT;
        found.is_inside && (!self.is_held || found.state != CLOSED || is_names() || is_own())
    }

    /// Binds a socket of the namespace. One that was handed over, and failed, must not take a port of this machine.
    fn bind(&self, socket: &OwnedFd, address: &[u8]) -> Result<Next, Errno> {
        let domain = socket_domain(socket)?;
        if domain != AddressFamily::NETLINK && !self.found(socket, domain)?.is_inside {
            return Err(Errno::ACCESS);
        }
        sys::bind(socket.as_fd(), address).map_err(|error| number(&error))?;
        Ok(Next::Done)
    }

    /// Makes a socket of the namespace listen. One that was handed over must not listen on a port of this machine.
    fn listen(&mut self, found: &Found, socket: &OwnedFd, backlog: i32) -> Result<Next, Errno> {
        if !found.is_inside {
            return Err(Errno::ACCESS);
        }
        rustix::net::listen(socket, backlog)?;
        self.has_listened = true;
        Ok(Next::Done)
    }

    /// Asks the host for a connection, and returns the number of the request.
    fn ask(&mut self, found: &Found, wait: Option<NonZeroU64>, address: SocketAddr) -> Result<u64, Errno> {
        match found.state {
            CLOSED => {}
            SYN_SENT | SYN_RECEIVED => return Err(Errno::ALREADY),
            _ => return Err(Errno::ISCONN),
        }
        let outside = self.outside.as_ref().ok_or(Errno::NETUNREACH)?;
        if self.asked.len() >= MAX_WAITING {
            return Err(Errno::AGAIN);
        }
        self.count += 1;
        let is_v6 = found.domain == AddressFamily::INET6;
        let request = Request { id: self.count, is_v6, wait, address };
        let sent = wire::send(outside, CONNECT, &request.encode(), &[] as &[OwnedFd]);
        sent.map(|()| self.count).map_err(|_| Errno::AGAIN)
    }

    /// Connects a socket inside of the namespace. The watcher does not wait for it.
    fn connect(&self, socket: &OwnedFd, address: &[u8]) -> Result<Next, Errno> {
        let waits = is_waited_for(socket)?;
        if waits && self.inside.len() >= MAX_WAITING {
            return Err(Errno::AGAIN);
        }
        if waits {
            set_waiting(socket, false)?;
        }
        match sys::connect(socket.as_fd(), address).map_err(|error| number(&error)) {
            Err(Errno::INPROGRESS) if waits => Ok(Next::Inside),
            result => {
                if waits {
                    set_waiting(socket, true)?;
                }
                result.map(|()| Next::Done)
            }
        }
    }

    /// Returns what is to be waited for: the host's replies first.
    pub(super) fn sources(&self) -> impl Iterator<Item = PollFd<'_>> {
        let replies = self.outside.iter().map(|outside| PollFd::new(outside, PollFlags::IN));
        replies.chain(self.inside.iter().map(|waiting| PollFd::new(&waiting.socket, PollFlags::OUT)))
    }

    pub(super) fn happened(&mut self, listener: BorrowedFd<'_>, events: &[PollFlags]) {
        let (outside, inside) = events.split_at(usize::from(self.outside.is_some()).min(events.len()));
        let mut events = inside.iter();
        let is_done = |_: &mut Waiting| events.next().is_some_and(|event| !event.is_empty());
        for Waiting { call, socket } in self.inside.extract_if(.., is_done) {
            let connected = set_waiting(&socket, true).and_then(|()| socket_error(&socket)?);
            end(listener, &call, connected.map_or_else(Errno::raw_os_error, |()| 0));
        }
        if outside.iter().any(|event| !event.is_empty()) {
            self.reply(listener);
        }
    }

    fn reply(&mut self, listener: BorrowedFd<'_>) {
        let message = self.outside.as_ref().and_then(|outside| wire::receive(outside).ok().flatten());
        let Some(mut message) = message else {
            self.outside = None;
            for Waiting { call, .. } in std::mem::take(&mut self.asked).values() {
                end(listener, call, libc::ENETUNREACH);
            }
            return;
        };
        let Some(reply) = Reply::decode(&message.body) else { return };
        let Some(Waiting { call, socket }) = self.asked.remove(&reply.id) else { return };
        let handed = match message.descriptors.pop() {
            Some(connected) => {
                handover::hand_over(listener, &mut self.defaults, (&call, &socket), &connected)
            }
            None => Ok(()),
        };
        end(listener, &call, handed.map_or_else(Errno::raw_os_error, |()| reply.error));
    }
}

/// Returns the address of a call: its second argument, with the length that is the third.
fn argument<'b>(call: &Notification, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    let [_, place, length, ..] = call.arguments;
    let bytes = usize::try_from(length).ok().and_then(|length| buffer.get_mut(..length));
    let bytes = bytes.ok_or(Errno::INVAL)?;
    let length = bytes.len();
    call.read(place, bytes).ok().filter(|read| read.len() == length).ok_or(Errno::FAULT)
}

/// Returns whether a socket of the namespace listens on an address of loopback: another one cannot be bound to it
/// then. The kernel's table of sockets is too large to be read for every connection.
fn is_own_server(address: SocketAddr) -> bool {
    let (ip, family) = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST.into(), AddressFamily::INET),
        IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST.into(), AddressFamily::INET6),
        ip if ip.is_ipv4() => (ip, AddressFamily::INET),
        ip => (ip, AddressFamily::INET6),
    };
    let bound = || -> Result<(), Errno> {
        let probe = rustix::net::socket(family, SocketType::STREAM, None)?;
        // What is left of ended connections does not count.
        set_socket_reuseaddr(&probe, true)?;
        rustix::net::bind(&probe, &SocketAddr::new(ip, address.port()))
    };
    ip.is_loopback() && bound() == Err(Errno::ADDRINUSE)
}

/// An error means that the process has ended, or was interrupted.
fn end(listener: BorrowedFd<'_>, call: &Notification, error: i32) {
    let _ = call.end(listener, error);
}

fn is_waited_for(socket: &OwnedFd) -> Result<bool, Errno> {
    Ok(!rustix::fs::fcntl_getfl(socket)?.contains(OFlags::NONBLOCK))
}

/// Returns how long calls on a socket wait, in milliseconds; none if they do not wait.
fn wait(socket: &OwnedFd) -> Result<Option<NonZeroU64>, Errno> {
    if !is_waited_for(socket)? {
        return Ok(None);
    }
    let limit =
        socket_timeout(socket, Timeout::Send)?.and_then(|limit| u64::try_from(limit.as_millis()).ok());
    Ok(NonZeroU64::new(limit.unwrap_or(u64::MAX).max(1)))
}

fn set_waiting(socket: &OwnedFd, waits: bool) -> Result<(), Errno> {
    let mut flags = rustix::fs::fcntl_getfl(socket)?;
    flags.set(OFlags::NONBLOCK, !waits);
    rustix::fs::fcntl_setfl(socket, flags)
}

fn number(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
