//! Opens a permitted connection in haft's own network namespace.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketType};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::message::Request;
use haft_core::upstream::Upstream;

/// Limit on the addresses of a proxy that are tried.
const MAX_ADDRESSES: usize = 4;

/// Time limit for a connection that the child waits for: the kernel gives up after about two minutes, and the child
/// cannot be interrupted meanwhile.
const CONNECT: Duration = Duration::from_mins(1);

/// Returns the error number for the child, 0 for success, and the socket. A call that does not wait gets a socket
/// that is being connected.
pub(super) async fn open(request: &Request) -> (i32, Option<OwnedFd>) {
    match opened(request).await {
        Ok((error, socket)) => (error, Some(socket)),
        Err(error) => (error.raw_os_error(), None),
    }
}

/// Opens a connection to a granted name like [`open`], through the proxy if there is one for the name.
pub(super) async fn open_for(name: Option<&str>, request: &Request) -> (i32, Option<OwnedFd>) {
    match name.and_then(|name| Some((Upstream::of(name)?, name))) {
        Some((upstream, name)) => open_through(upstream, name, request).await,
        None => open(request).await,
    }
}

/// Opens a connection through a proxy that connects to `name`. A call that does not wait gets a connected socket too.
async fn open_through(upstream: &Upstream, name: &str, request: &Request) -> (i32, Option<OwnedFd>) {
    let opened = timeout(CONNECT, tunnel(upstream, name, request)).await;
    match opened.unwrap_or_else(|_| Err(Errno::TIMEDOUT.into())) {
        Ok(socket) => (0, Some(socket)),
        Err(error) => {
            tracing::warn!("{error}");
            (error.raw_os_error().unwrap_or(libc::ECONNREFUSED), None)
        }
    }
}

async fn tunnel(upstream: &Upstream, name: &str, request: &Request) -> io::Result<OwnedFd> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let wait = u64::try_from(CONNECT.as_millis()).ok().and_then(NonZeroU64::new);
    for address in upstream.addresses().await?.into_iter().take(MAX_ADDRESSES) {
        let is_v6 = request.is_v6 || address.is_ipv6();
        match opened(&Request { is_v6, wait, address, ..*request }).await {
            Ok((_, socket)) => {
                let mut stream = TcpStream::from_std(std::net::TcpStream::from(socket))?;
                upstream.tunnel(&mut stream, name, request.address.port()).await?;
                return Ok(stream.into_std()?.into());
            }
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

async fn opened(request: &Request) -> Result<(i32, OwnedFd), Errno> {
    let socket = socket(request.is_v6)?;
    match rustix::net::connect(&socket, &address(request)) {
        Ok(()) => Ok((0, socket)),
        Err(Errno::INPROGRESS) => match request.wait {
            Some(_) if is_writable(&socket)? => socket_error(&socket)?.map(|()| (0, socket)),
            Some(limit) => connected(socket, Duration::from_millis(limit.get())).await,
            None => Ok((Errno::INPROGRESS.raw_os_error(), socket)),
        },
        Err(error) => Err(error),
    }
}

/// Returns whether a connection is made, or has failed: within this machine both are so at once.
fn is_writable(socket: &OwnedFd) -> Result<bool, Errno> {
    Ok(poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&Timespec::default()))? > 0)
}

/// Returns a socket that does not wait; the watcher gives it the flags of the child's.
fn socket(is_v6: bool) -> Result<OwnedFd, Errno> {
    let family = if is_v6 { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    let flags = rustix::fs::fcntl_getfl(&socket)?;
    rustix::fs::fcntl_setfl(&socket, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok(socket)
}

/// Returns the address for a socket of the request's family.
fn address(request: &Request) -> SocketAddr {
    match request.address.ip() {
        IpAddr::V4(address) if request.is_v6 => {
            SocketAddr::new(address.to_ipv6_mapped().into(), request.address.port())
        }
        _ => request.address,
    }
}

#[expect(
    deprecated,
    reason = "the successor is `unsafe` for descriptors that may close; an `OwnedFd` does not"
)]
async fn connected(socket: OwnedFd, limit: Duration) -> Result<(i32, OwnedFd), Errno> {
    let socket = AsyncFd::with_interest(socket, Interest::WRITABLE).map_err(|error| number(&error))?;
    let error = match timeout(limit.min(CONNECT), socket.writable()).await {
        Ok(ready) => {
            drop(ready.map_err(|error| number(&error))?);
            socket_error(socket.get_ref())??;
            0
        }
        // As the kernel has it: the connection may still be made.
        Err(_) if limit < CONNECT => Errno::INPROGRESS.raw_os_error(),
        Err(_) => return Err(Errno::TIMEDOUT),
    };
    Ok((error, socket.into_inner()))
}

fn number(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
