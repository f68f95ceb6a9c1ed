//! Responses of the HTTP server: complete ones, refusals (a status and one line of text, or a JSON-RPC error), and
//! event streams: of notifications before an answer and the answer, or of a session's notifications. Events of a
//! session have ids. A client whose connection broke sends the last id that it received (`Last-Event-ID`), and gets
//! the events after it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use rmcp::model::{
    ElicitRequestParams, ElicitResult, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerNotification,
};
use serde::Serialize;
use tokio::sync::Notify;

use crate::server::conversation::Link;
use crate::server::message;
use haft_core::sync::Lock;

/// The type of a body that is one JSON object or list.
pub(super) const JSON: &str = "application/json";

/// The type of a body that is a stream of events.
pub(super) const EVENTS: &str = "text/event-stream";

/// Requests a proxy to forward events without buffering.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Maximum number of queued events of a stream: as many as a plugin may send in a call.
const WAITING: usize = 1024;

/// Maximum number of queued pieces among them, of process output or of an answer, which are long.
const PIECES: usize = 256;

/// Number of events of a stream that are kept after they were read, and that are queued without a reader.
const KEPT: usize = 8;

/// Interval of comments on a silent stream: proxies close longer silent ones.
pub(super) const PING: Duration = Duration::from_secs(15);

/// After how long a client asks again for a stream that broke.
const RETRY: Duration = Duration::from_secs(3);

/// A comment, which keeps a stream alive.
const COMMENT: &[u8] = b":\n\n";

pub(super) type HttpResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

pub(super) fn whole(status: StatusCode, content_type: &'static str, text: impl Into<Bytes>) -> HttpResponse {
    let mut answer = Response::new(Full::new(text.into()).boxed_unsync());
    *answer.status_mut() = status;
    if !content_type.is_empty() {
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    answer
}

pub(super) fn empty(status: StatusCode) -> HttpResponse {
    whole(status, "", Bytes::new())
}

pub(super) fn text(message: &impl Serialize) -> Bytes {
    // Messages are strings and JSON values: they can be written, and have no line breaks.
    serde_json::to_vec(message).unwrap_or_default().into()
}

/// The reason why a request is not answered.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    why: String,
    /// [`JSON`] where `why` is a message of JSON-RPC.
    content_type: &'static str,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into(), content_type: "", header: None }
    }

    /// Returns a JSON-RPC error, for the request `id` if known. `is_sessionless`: of 2026-07-28 or later.
    pub(super) fn error(id: Option<RequestId>, error: ErrorData, is_sessionless: bool) -> Self {
        let why = message::refusal(id, error, is_sessionless).to_string();
        Self { content_type: JSON, ..Self::new(StatusCode::BAD_REQUEST, why) }
    }

    /// Returns this refusal, after which the connection is closed.
    pub(super) fn and_close(self) -> Self {
        self.with(CONNECTION, HeaderValue::from_static("close"))
    }

    pub(super) fn with(self, name: HeaderName, value: HeaderValue) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    pub(super) fn into_response(self) -> HttpResponse {
        tracing::info!(status = self.status.as_u16(), why = self.why, "request refused");
        let line = if self.content_type.is_empty() { "\n" } else { "" };
        let mut answer = whole(self.status, self.content_type, self.why + line);
        answer.headers_mut().extend(self.header);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
        }
        answer
    }
}

/// A stream. Any thread appends events, and one connection at a time reads them.
pub(super) struct EventStream {
    ids: Ids,
    state: Lock<State>,
    changed: Notify,
}

/// The ids of the events of a stream.
#[derive(Clone, Copy)]
pub(super) enum Ids {
    /// No id: no event can be fetched again.
    None,
    /// The stream of a session without a request.
    Session,
    /// The stream of the request with this number in its session.
    Request(u64),
}

#[derive(Default)]
struct State {
    /// The stored and the unread events, in order.
    events: VecDeque<Bytes>,
    /// The number of removed events before these.
    gone: u64,
    /// The number of read events.
    read: u64,
    /// The number of readers so far.
    readers: u64,
    /// The first of the readers that still read: for a request's stream the last reader; for a session's stream those
    /// since a client that lost its connection returned.
    first_reader: u64,
    is_over: bool,
    /// The status of an answer that is the complete stream.
    status: StatusCode,
}

/// The last event that a client received.
pub(super) struct LastEvent {
    /// The number of the request with the stream.
    pub(super) request: Option<u64>,
    event: u64,
}

impl LastEvent {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (event, request) = match text.split_once('/') {
            Some((event, request)) => (event, Some(request.parse().ok()?)),
            None => (text, None),
        };
        Some(Self { request, event: event.parse().ok()? })
    }
}

impl EventStream {
    pub(super) fn new(ids: Ids) -> Arc<Self> {
        Arc::new(Self { ids, state: Lock::default(), changed: Notify::new() })
    }

    /// Appends a message, unless too many are queued. `is_piece`: one of many. Returns whether there was room.
    pub(super) fn append(&self, message: &impl Serialize, is_piece: bool) -> bool {
        let text = text(message);
        let mut state = self.state.lock();
        let most = if is_piece { PIECES } else { WAITING };
        let has_room = !state.is_over && state.waiting() < most;
        if has_room {
            state.push(text);
        }
        drop(state);
        self.changed.notify_waiters();
        has_room
    }

    /// Appends the answer, and ends the stream. `status` is that of a response that is nothing but the answer.
    pub(super) fn answer(&self, text: Bytes, status: StatusCode) {
        let mut state = self.state.lock();
        if !state.is_over {
            state.push(text);
            state.status = status;
        }
        state.is_over = true;
        drop(state);
        self.changed.notify_waiters();
    }

    fn is_over(&self) -> bool {
        self.state.lock().is_over
    }

    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_waiters();
    }

    /// Limits the queue of a stream without a reader.
    pub(super) fn forget_old(&self) {
        let mut state = self.state.lock();
        while state.waiting() > KEPT {
            state.read += 1;
        }
        state.forget();
    }

    pub(super) fn size(&self) -> usize {
        self.state.lock().events.iter().map(Bytes::len).sum()
    }

    /// Returns all events as one body, if the stream is over and has no reader. `primes`: as in
    /// [`EventStream::response`].
    pub(super) fn whole(&self, primes: bool) -> Option<HttpResponse> {
        let mut state = self.state.lock();
        if !state.is_over {
            return None;
        }
        let mut text = if primes { self.priming(state.read) } else { Vec::new() };
        while let Some(event) = state.next() {
            self.frame(state.read, &event, &mut text);
        }
        drop(state);
        Some(headers(whole(StatusCode::OK, EVENTS, text)))
    }

    /// Returns a response that reads the stream from the event after `last`, if it is kept, otherwise from now on,
    /// at most until `end`, which is polled meanwhile. `primes`: begins with an event without data, whose id allows
    /// to resume the stream.
    pub(super) fn response(
        self: Arc<Self>,
        last: Option<&LastEvent>,
        primes: bool,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> HttpResponse {
        let mut state = self.state.lock();
        state.readers += 1;
        if let Some(last) = last {
            state.read = last.event.clamp(state.gone, state.read.max(state.gone));
        }
        if last.is_some() || matches!(self.ids, Ids::Request(_)) {
            state.first_reader = state.readers;
        }
        let (reader, read) = (state.readers, state.read);
        drop(state);
        self.changed.notify_waiters();
        let first = primes.then(|| self.priming(read).into());
        let events = stream::unfold(self.clone(), move |own| async move {
            let next = tokio::time::timeout(PING, own.until(|| own.poll_next(reader))).await;
            let event = next.unwrap_or(Some(Bytes::from_static(COMMENT)))?;
            Some((event, own))
        });
        // Queued events are still sent after `end`.
        let queued = stream::poll_fn(move |_| match self.poll_next(reader) {
            Poll::Pending => Poll::Ready(None),
            event @ Poll::Ready(_) => event,
        });
        let all = stream::iter(first).chain(events.take_until(end)).chain(queued);
        let body = StreamBody::new(all.map(|event| Ok::<_, Infallible>(Frame::data(event))));
        let mut answer = Response::new(body.boxed_unsync());
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
        headers(answer)
    }

    /// Waits for the first event, or the end. Returns the answer, if it is the only event and not a success.
    pub(super) async fn failure(&self) -> Option<HttpResponse> {
        let begun = || {
            let state = self.state.lock();
            if !state.is_over && state.events.is_empty() {
                return Poll::Pending;
            }
            let is_failure = state.events.len() == 1 && state.status != StatusCode::OK;
            let only = state.events.front().filter(|_| is_failure);
            Poll::Ready(only.map(|text| whole(state.status, JSON, text.clone())))
        };
        self.until(begun).await
    }

    /// Returns the next event for `reader`; `None` at the end.
    fn poll_next(&self, reader: u64) -> Poll<Option<Bytes>> {
        let mut state = self.state.lock();
        if reader < state.first_reader {
            return Poll::Ready(None);
        }
        if let Some(event) = state.next() {
            let mut text = Vec::with_capacity(event.len() + 32);
            self.frame(state.read, &event, &mut text);
            return Poll::Ready(Some(text.into()));
        }
        if state.is_over { Poll::Ready(None) } else { Poll::Pending }
    }

    /// Waits for the result of `poll`, which changes with the stream.
    async fn until<T>(&self, poll: impl Fn() -> Poll<T>) -> T {
        loop {
            // Registered before the check, so that no notification is missed.
            let changed = self.changed.notified();
            if let Poll::Ready(found) = poll() {
                return found;
            }
            changed.await;
        }
    }

    fn priming(&self, read: u64) -> Vec<u8> {
        let id = self.id(read);
        format!("{id}retry: {}\ndata: \n\n", RETRY.as_millis()).into_bytes()
    }

    /// Writes the event `number` as text.
    fn frame(&self, number: u64, event: &[u8], text: &mut Vec<u8>) {
        text.extend(self.id(number).into_bytes());
        text.extend_from_slice(b"data: ");
        text.extend_from_slice(event);
        text.extend_from_slice(b"\n\n");
    }

    fn id(&self, number: u64) -> String {
        match self.ids {
            Ids::None => String::new(),
            Ids::Session => format!("id: {number}\n"),
            Ids::Request(request) => format!("id: {number}/{request}\n"),
        }
    }
}

impl State {
    fn waiting(&self) -> usize {
        usize::try_from(self.gone + self.events.len() as u64 - self.read).unwrap_or(usize::MAX)
    }

    fn push(&mut self, event: Bytes) {
        self.events.push_back(event);
        self.forget();
    }

    /// Removes events that were read long ago.
    fn forget(&mut self) {
        while self.gone + (KEPT as u64) < self.read {
            self.events.pop_front();
            self.gone += 1;
        }
    }

    /// Returns the next event, which counts as read.
    fn next(&mut self) -> Option<Bytes> {
        let place = usize::try_from(self.read - self.gone).ok()?;
        let event = self.events.get(place)?.clone();
        self.read += 1;
        Some(event)
    }
}

/// A stream with the answer to the request `id`. A drop ends it, also without an answer after a panic.
pub(super) struct StreamGuard {
    pub(super) stream: Arc<EventStream>,
    pub(super) id: RequestId,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        if !self.stream.is_over() {
            let error =
                message::answer(Err(ErrorData::internal_error(message::DEFECT, None)), self.id.clone());
            self.stream.answer(text(&error), StatusCode::OK);
        }
    }
}

#[async_trait]
impl Link for EventStream {
    fn tell(&self, notification: ServerNotification, is_piece: bool) -> bool {
        let message: ServerJsonRpcMessage = JsonRpcMessage::notification(notification);
        self.append(&message, is_piece)
    }

    async fn ask(&self, _: ElicitRequestParams) -> Result<ElicitResult, String> {
        Err("it cannot receive questions".into())
    }
}

fn headers(mut answer: HttpResponse) -> HttpResponse {
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer.headers_mut().insert(UNBUFFERED, HeaderValue::from_static("no"));
    answer
}

#[cfg(test)]
mod tests;
