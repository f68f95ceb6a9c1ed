//! A guest's standard streams: its input is complete before it begins, its output is captured.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::cli::{IsTerminal, StdinStream, StdoutStream};
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use crate::call::Call;
use crate::wasi::capability::{Capability, NewGuest};
use haft_core::limit::Limits;
use haft_core::sync::Lock;

/// The three streams.
#[derive(Default)]
pub(crate) struct Stdio {
    pub(crate) stdin: Input,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
}

impl Capability for Stdio {
    fn new(_: &NewGuest<'_>) -> Self {
        Self::default()
    }

    fn configure(&self, wasi: &mut WasiCtxBuilder, _: &Call) {
        wasi.stdin(self.stdin.clone()).stdout(self.stdout.clone()).stderr(self.stderr.clone());
    }

    fn renew(&mut self, _: &Limits) {
        self.stdin.fill(Vec::new());
        self.stdout.clear();
        self.stderr.clear();
    }
}

// A guest's standard input: empty, except for commands, which get all of it before they run.

/// The rest of the input. Clones share it, as all streams of a guest do.
#[derive(Clone, Default)]
pub(crate) struct Input(Arc<Lock<Bytes>>);

impl Input {
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

// Captures a guest's standard output and error: the beginning and the end are kept, the rest is counted and dropped.
// Nothing reaches haft's own standard output.

/// Maximum number of bytes kept of each stream's beginning, and of its end: some hundred lines, and the last lines
/// of a guest.
const MAX_KEPT: usize = 8 << 10;

/// The write size that wasmtime requires; no code here depends on it.
const CHUNK: usize = 64 << 10;

/// A captured stream. Clones share the captured bytes.
#[derive(Clone, Default)]
pub(crate) struct Captured(Arc<Lock<CapturedBytes>>);

struct CapturedBytes {
    /// Bytes that are kept of the beginning.
    room: usize,
    first: Vec<u8>,
    last: VecDeque<u8>,
    dropped: usize,
}

impl Default for CapturedBytes {
    fn default() -> Self {
        Self { room: MAX_KEPT, first: Vec::new(), last: VecDeque::new(), dropped: 0 }
    }
}

impl Captured {
    /// Stores `bytes` bytes of the beginning of later output.
    pub(crate) fn keep_first(&self, bytes: usize) {
        self.0.lock().room = bytes.max(MAX_KEPT);
    }

    /// Returns the output as text, with a note if a part was dropped; invalid UTF-8 is replaced.
    pub(crate) fn text(&self) -> String {
        let captured = self.0.lock();
        let mut bytes = captured.first.clone();
        if captured.dropped > 0 {
            bytes.extend(format!("\n... ({} bytes were dropped)\n", captured.dropped).into_bytes());
        }
        bytes.extend(&captured.last);
        String::from_utf8_lossy(&bytes).trim_end().to_owned()
    }

    pub(crate) fn clear(&self) {
        *self.0.lock() = CapturedBytes::default();
    }

    fn capture(&self, bytes: &[u8]) {
        let mut captured = self.0.lock();
        let room = captured.room.saturating_sub(captured.first.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        captured.first.extend_from_slice(first);
        let last = rest.get(rest.len().saturating_sub(MAX_KEPT)..).unwrap_or_default();
        let surplus = (captured.last.len() + last.len()).saturating_sub(MAX_KEPT);
        captured.last.drain(..surplus);
        captured.last.extend(last);
        captured.dropped += surplus + rest.len() - last.len();
    }
}

impl OutputStream for Captured {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.capture(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Captured {
    async fn ready(&mut self) {}
}

impl AsyncWrite for Captured {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.capture(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl IsTerminal for Captured {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Captured {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
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
