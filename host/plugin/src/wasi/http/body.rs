//! Streaming bodies of requests and responses: counted, timed and masked, never buffered completely.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};
use wasmtime_wasi_http::{Error, Result, WasiBody};

use super::mask::Masker;

/// Maximum size in bytes of one response's body. No tool needs more, and an endless response fills only the guest's
/// own memory.
pub(super) const MAX_RESPONSE: u64 = 256 << 20;

/// Maximum size in bytes of one request's body, for the same reason; it may contain granted files.
const MAX_REQUEST: u64 = 64 << 20;

pub(super) struct RequestBody {
    inner: WasiBody,
    left: u64,
}

impl RequestBody {
    pub(super) fn new(inner: WasiBody) -> Self {
        Self { inner, left: MAX_REQUEST }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(context)?) else {
            return Poll::Ready(None);
        };
        let left = frame.data_ref().map_or(Some(self.left), |data| self.left.checked_sub(data.len() as u64));
        self.left = left.ok_or(Error::HttpRequestBodySize(Some(MAX_REQUEST)))?;
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of a response. Trailers are omitted: servers send none to a client that does not announce support.
pub(super) struct ResponseBody {
    inner: Incoming,
    left: u64,
    masker: Masker,
    quiet: Duration,
    silence: Pin<Box<Sleep>>,
    ended: bool,
}

impl ResponseBody {
    /// Ends with an error after `quiet` without data.
    pub(super) fn new(inner: Incoming, masker: Masker, quiet: Duration) -> Self {
        let silence = Box::pin(sleep(quiet));
        Self { inner, left: MAX_RESPONSE, masker, quiet, silence, ended: false }
    }

    /// Returns the bytes of a frame that may be passed on; there may be none.
    fn accept_frame(&mut self, frame: Frame<Bytes>) -> Result<Bytes> {
        self.silence.as_mut().reset(Instant::now() + self.quiet);
        let Ok(data) = frame.into_data() else { return Ok(Bytes::new()) };
        let left = self.left.checked_sub(data.len() as u64);
        self.left = left.ok_or(Error::HttpResponseBodySize(Some(MAX_RESPONSE)))?;
        Ok(self.masker.next(data))
    }

    fn end(&mut self) -> Option<Result<Bytes>> {
        self.ended = true;
        Some(Ok(self.masker.end())).filter(|rest| rest.as_ref().is_ok_and(|rest| !rest.is_empty()))
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        while !self.ended {
            let frame = match Pin::new(&mut self.inner).poll_frame(context) {
                Poll::Ready(Some(frame)) => frame.map_err(|error| broken(&error)),
                Poll::Ready(None) => return Poll::Ready(self.end()),
                Poll::Pending => {
                    ready!(self.silence.as_mut().poll(context));
                    Err(Error::ConnectionReadTimeout)
                }
            };
            match frame.and_then(|frame| self.accept_frame(frame)) {
                Ok(bytes) if bytes.is_empty() => {}
                taken => {
                    self.ended = taken.is_err();
                    return Poll::Ready(Some(taken));
                }
            }
        }
        Poll::Ready(None)
    }
}

fn broken(error: &hyper::Error) -> Error {
    if error.is_incomplete_message() { Error::HttpResponseIncomplete } else { Error::ConnectionTerminated }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        self.poll_bytes(context).map_ok(Frame::data)
    }
}
