//! A connection that is read in large pieces: rustls asks for four kilobytes at once.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;

/// Bytes that are read at once: two records of TLS.
const SIZE: usize = 32 << 10;

/// A connection, and what was read from it if it is recorded.
pub(super) struct Buffered {
    pub(super) stream: BufReader<TcpStream>,
    /// Not more than a client's first message, whose size TLS limits; `None` if it is not needed.
    pub(super) seen: Option<Vec<u8>>,
}

impl Buffered {
    pub(super) fn new(stream: TcpStream, seen: Option<Vec<u8>>) -> Self {
        Self { stream: BufReader::with_capacity(SIZE, stream), seen }
    }
}

impl Connection for Buffered {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Buffered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if let Some(seen) = &mut self.seen {
            seen.extend_from_slice(buffer.filled().get(before..).unwrap_or_default());
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Buffered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
