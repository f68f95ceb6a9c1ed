//! The asynchronous end of a socket of the protocol: the host's.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::wire;

/// Returns a socket that is not waited for by threads.
#[expect(
    deprecated,
    reason = "the successor is `unsafe` for descriptors that may close; an `OwnedFd` does not"
)]
pub(super) fn watched<T: AsFd + AsRawFd>(socket: T) -> io::Result<AsyncFd<T>> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    AsyncFd::with_interest(socket, Interest::READABLE)
}

/// Receives one message; `None` if the other end is closed.
pub(super) async fn receive<T: AsFd + AsRawFd>(socket: &AsyncFd<T>) -> io::Result<Option<wire::Message>> {
    loop {
        let mut guard = socket.readable().await?;
        if let Ok(message) = guard.try_io(|socket| wire::receive(socket.get_ref().as_fd())) {
            return message;
        }
    }
}
