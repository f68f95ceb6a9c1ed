//! macOS: stream sockets with length-prefixed messages, and an unnamed temporary file.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType,
    recv, recvmsg, sendmsg, socketpair,
};

/// Bytes of the length prefix: sockets that preserve message boundaries do not support long messages.
const HEAD: usize = 2;

/// Time limit for the rest of a message, which was written at once.
const REST: Duration = Duration::from_secs(1);

pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?;
    let pair = [ours, theirs];
    keep_from_children(&pair)?;
    Ok(pair.into())
}

/// Makes descriptors close-on-exec: `socketpair(2)` and `recvmsg(2)` return them without this flag.
pub(crate) fn keep_from_children(descriptors: &[OwnedFd]) -> io::Result<()> {
    descriptors.iter().try_for_each(|descriptor| Ok(fcntl_setfd(descriptor, FdFlags::CLOEXEC)?))
}

pub(crate) fn send(
    socket: impl AsFd,
    kind: u8,
    body: &[u8],
    descriptors: &mut SendAncillaryBuffer<'_, '_, '_>,
) -> io::Result<()> {
    let length = u16::try_from(body.len() + 1).map_err(|_| io::ErrorKind::InvalidInput)?.to_le_bytes();
    let kind = [kind];
    let parts = [IoSlice::new(&length), IoSlice::new(&kind), IoSlice::new(body)];
    let sent = rustix::io::retry_on_intr(|| sendmsg(&socket, &parts, descriptors, SendFlags::DONTWAIT))?;
    if sent == HEAD + 1 + body.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives one message into `buffer`, its kind first. Returns its size in bytes: 0 if the other end is closed.
pub(crate) fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    descriptors: &mut RecvAncillaryBuffer<'_>,
) -> io::Result<usize> {
    let mut head = [0; HEAD];
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(&socket, &mut [IoSliceMut::new(&mut head)], descriptors, RecvFlags::empty())
    })?;
    if received.bytes == 0 {
        return Ok(0);
    }
    rest(&socket, head.get_mut(received.bytes..).unwrap_or_default())?;
    let length = usize::from(u16::from_le_bytes(head));
    rest(&socket, buffer.get_mut(..length).ok_or(io::ErrorKind::InvalidData)?)?;
    Ok(length)
}

/// Fills `buffer` with bytes that are available now or at once.
fn rest(socket: impl AsFd, mut buffer: &mut [u8]) -> io::Result<()> {
    let limit = Timespec::try_from(REST).map_err(io::Error::other)?;
    while !buffer.is_empty() {
        match recv(&socket, &mut *buffer, RecvFlags::empty()) {
            Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((_, received)) => buffer = buffer.get_mut(received..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                if poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&limit))? == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns an unnamed temporary file.
pub(crate) fn new_file() -> io::Result<File> {
    tempfile::tempfile()
}
