//! Linux: sequenced-packet sockets, and `memfd_create(2)`.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType,
    recvmsg, sendmsg, socketpair,
};

pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

pub(crate) fn send(
    socket: impl AsFd,
    kind: u8,
    body: &[u8],
    descriptors: &mut SendAncillaryBuffer<'_, '_, '_>,
) -> io::Result<()> {
    let kind = [kind];
    let parts = [IoSlice::new(&kind), IoSlice::new(body)];
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::io::retry_on_intr(|| sendmsg(&socket, &parts, descriptors, flags))?;
    Ok(())
}

/// Receives one message into `buffer`, its kind first. Returns its size in bytes: 0 if the other end is closed.
pub(crate) fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    descriptors: &mut RecvAncillaryBuffer<'_>,
) -> io::Result<usize> {
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(&socket, &mut [IoSliceMut::new(buffer)], descriptors, RecvFlags::CMSG_CLOEXEC)
    })?;
    Ok(received.bytes)
}

/// Does nothing: received descriptors are close-on-exec already (`MSG_CMSG_CLOEXEC`).
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on macOS")]
pub(crate) fn keep_from_children(_: &[OwnedFd]) -> io::Result<()> {
    Ok(())
}

/// Returns an empty memory file.
pub(crate) fn new_file() -> io::Result<File> {
    Ok(File::from(memfd_create("haft", MemfdFlags::CLOEXEC)?))
}
