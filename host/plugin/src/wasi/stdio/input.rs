//! A guest's standard input: empty, but for commands, which are handed all of it before they run.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use wasmtime_wasi::cli::{IsTerminal, StdinStream};
use wasmtime_wasi::p2::{InputStream, Pollable, StreamError, StreamResult};

use haft_core::sync::Lock;

/// What is left to be read. Clones share it, as all streams of a guest do.
#[derive(Clone, Default)]
pub(crate) struct Input(Arc<Lock<Bytes>>);

impl Input {
    /// Hands over what is to be read, in the place of what was left.
    pub(crate) fn fill(&self, bytes: Vec<u8>) {
        *self.0.lock() = bytes.into();
    }

    fn take(&self, most: usize) -> Bytes {
        let mut left = self.0.lock();
        let length = left.len().min(most);
        left.split_to(length)
    }
}

impl InputStream for Input {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let bytes = self.take(size);
        if bytes.is_empty() && size > 0 { Err(StreamError::Closed) } else { Ok(bytes) }
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Input {
    async fn ready(&mut self) {}
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes = self.take(buffer.remaining());
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl IsTerminal for Input {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdinStream for Input {
    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_goes_on_where_another_stopped() {
        let input = Input::default();
        assert!(matches!(input.clone().read(1), Err(StreamError::Closed)));
        input.fill(b"abc".to_vec());
        let (mut one, mut other) = (input.clone(), input);
        assert_eq!(one.read(2).unwrap(), "ab");
        assert_eq!(other.read(9).unwrap(), "c");
        assert!(matches!(one.read(1), Err(StreamError::Closed)));
    }
}
