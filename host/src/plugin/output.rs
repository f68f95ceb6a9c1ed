//! A guest's standard output and error: kept up to a bound, the rest counted and dropped.
//! Nothing a guest prints ever reaches haft's own standard output.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Bytes kept of each stream: some hundred lines, enough for the last words of a guest.
const MAX_KEPT: usize = 16 << 10;

/// What a guest may write at once; wasmtime asks for a number, and nothing here depends on it.
const CHUNK: usize = 64 << 10;

/// One captured stream. Clones share what was captured.
#[derive(Clone, Default)]
pub(super) struct Captured(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    dropped: u64,
}

impl Captured {
    /// What was printed, with a note where not all was kept; invalid UTF-8 is replaced.
    pub(super) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::from_utf8_lossy(&kept.bytes).trim_end().to_owned();
        if kept.dropped > 0 {
            text.push_str(&format!("\n... ({} more bytes were not kept)", kept.dropped));
        }
        text
    }

    fn take(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_KEPT.saturating_sub(kept.bytes.len()).min(bytes.len());
        let (keep, drop) = bytes.split_at(room);
        kept.bytes.extend_from_slice(keep);
        kept.dropped += drop.len() as u64;
    }
}

impl OutputStream for Captured {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes);
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
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.take(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
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
