//! Passes requests to a component that serves HTTP (`wasi:http/incoming-handler`, or `wasi:http/handler` of WASI 0.3), in
//! process, without a listener or a connection. The answer is a JSON message, or a stream of events that ends with it.
//! It is read in pieces while the guest writes it; at most one message is stored.

use std::fmt::Debug;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::http::response::Parts;
use hyper::{Method, Request, Response};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::unconstrained;
use tokio::time::timeout;
use wasmtime::Store;
use wasmtime::component::{Accessor, Instance, InstancePre};
use wasmtime_wasi_http::WasiHttpView;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::bindings::{Proxy, ProxyIndices};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;
use wasmtime_wasi_http::p3;
use wasmtime_wasi_http::p3::bindings::{Service, ServiceIndices};

use super::News;
use super::message::{Failure, Message, shown};
use crate::contract::guest::is_among;
use crate::failure::{LoadError, TooLong};
use crate::instance::state::GuestState;
use haft_core::net::{Frames, Framing};

/// The interface of WASI 0.2; the rest of its version follows.
const INCOMING: &str = "wasi:http/incoming-handler@0.2.";

const HANDLER: &str = "wasi:http/handler@0.3.";

pub(super) fn is_exported(exports: &[&str]) -> bool {
    [INCOMING, HANDLER].iter().any(|interface| is_among(exports, interface))
}

pub(super) enum LinkedServer {
    Incoming(ProxyIndices),
    Handler(ServiceIndices),
}

pub(super) enum Server {
    Incoming(Proxy),
    Handler(Service),
}

impl LinkedServer {
    /// Selects the interface: of two the one with which more servers were tested.
    pub(super) fn new(linked: &InstancePre<GuestState>, exports: &[&str]) -> Result<Self, LoadError> {
        let new = if is_among(exports, INCOMING) {
            ProxyIndices::new(linked).map(Self::Incoming)
        } else {
            ServiceIndices::new(linked).map(Self::Handler)
        };
        new.map_err(|error| LoadError::link(&error))
    }

    pub(super) fn load(
        &self,
        store: &mut Store<GuestState>,
        instance: &Instance,
    ) -> wasmtime::Result<Server> {
        match self {
            Self::Incoming(indices) => indices.load(store, instance).map(Server::Incoming),
            Self::Handler(indices) => indices.load(store, instance).map(Server::Handler),
        }
    }
}

impl Server {
    /// Passes `post` to the guest, and its response to `reader`. Returns whether the guest can be used again.
    pub(super) async fn exchange(
        &self,
        store: &mut Store<GuestState>,
        post: Post,
        reader: &mut Reply<'_>,
    ) -> wasmtime::Result<bool> {
        match self {
            Self::Incoming(guest) => incoming(store, guest, post, reader).await,
            Self::Handler(guest) => handler(store, guest, post, reader).await,
        }
    }
}

/// The host name in requests. Servers refuse unknown names, and accept this one.
const AUTHORITY: &str = "localhost";

/// Time for which a guest may continue after its response is read: servers close a stream right after its last
/// event.
const FINISH: Duration = Duration::from_secs(1);

pub(super) struct Post {
    /// The path, from its first `/` on.
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

/// The reasons why an exchange has no response, except a trap.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("it returned without a complete answer")]
    Incomplete,
    #[error("it answered with the error `{0}`")]
    Refused(String),
    #[error("its answer is incomplete: {0}")]
    Broken(wasmtime_wasi_http::Error),
}

impl NoAnswer {
    /// The guest answered with an error of WASI.
    fn refused(code: impl Debug) -> Self {
        Self::Refused(format!("{code:?}"))
    }
}

/// Passes `post` to a guest, and its response to `reader`. Returns whether the guest has returned, and may be called
/// again: a guest that was still running, or trapped, when its response was known cannot be used again.
/// Errors: The guest trapped or was stopped before its answer was known, or gave no answer.
async fn incoming(
    store: &mut Store<GuestState>,
    guest: &Proxy,
    post: Post,
    reader: &mut Reply<'_>,
) -> wasmtime::Result<bool> {
    let (sender, receiver) = oneshot::channel();
    let mut http = store.data_mut().http();
    let request = http.new_incoming_request(Scheme::Http, post.into_request()?)?;
    let outparam = http.new_response_outparam(sender)?;
    let mut handling = pin!(guest.wasi_http_incoming_handler().call_handle(&mut *store, request, outparam));
    // The future waits only for the guest, which runs in this task.
    let mut reading = pin!(unconstrained(read(receiver, reader)));
    tokio::select! {
        biased;
        body = &mut reading => {
            let mut body = body?;
            let finished = tokio::select! {
                biased;
                finished = timeout(FINISH, &mut handling) => finished,
                // The reader is done; a guest that cannot write would trap.
                never = drain(&mut body) => match never {},
            };
            Ok(matches!(finished, Ok(Ok(()))))
        }
        returned = &mut handling => {
            // The complete output is available.
            match (poll_once(reading).await, returned) {
                (Some(Ok(_)), returned) => Ok(returned.is_ok()),
                (_, Err(trap)) => Err(trap),
                (Some(Err(error)), Ok(())) => Err(error),
                (None, Ok(())) => Err(NoAnswer::Incomplete.into()),
            }
        }
    }
}

/// Does the same with a guest of WASI 0.3.
async fn handler(
    store: &mut Store<GuestState>,
    guest: &Service,
    post: Post,
    reader: &mut Reply<'_>,
) -> wasmtime::Result<bool> {
    let (request, _sent) = p3::Request::from_http(store.data_mut().http().hooks, post.into_request()?);
    let mut is_known = false;
    let exchanged = store.run_concurrent(async |store| {
        let response = guest.handle(store, request).await?.map_err(NoAnswer::refused)?;
        let response = store.with(|access| response.into_http(access, async { Ok(()) }))?;
        let body = read_answer(response, reader).await?;
        is_known = true;
        // The reader is done; a guest that still writes gets an error.
        drop(body);
        wasmtime::error::Ok(finished(store).await)
    });
    match exchanged.await {
        Ok(after) => after,
        // A trap once the answer is known takes nothing from it.
        Err(_) if is_known => Ok(false),
        Err(trap) => Err(trap),
    }
}

/// Waits for the guest's remaining work, for at most [`FINISH`], and returns whether the guest can be called again.
async fn finished(store: &Accessor<GuestState>) -> bool {
    let mut idle = pin!(poll_fn(|context| store.poll_no_interesting_tasks(context)));
    timeout(FINISH, &mut idle).await.is_ok()
}

async fn read(
    receiver: oneshot::Receiver<Result<Response<HyperOutgoingBody>, ErrorCode>>,
    reader: &mut Reply<'_>,
) -> wasmtime::Result<HyperOutgoingBody> {
    let answer = receiver.await.map_err(|_| NoAnswer::Incomplete)?.map_err(NoAnswer::refused)?;
    read_answer(answer, reader).await
}

async fn read_answer<B>(answer: Response<B>, reader: &mut Reply<'_>) -> wasmtime::Result<B>
where
    B: Body<Data = Bytes, Error = wasmtime_wasi_http::Error> + Unpin,
{
    let (head, mut body) = answer.into_parts();
    reader.head(&head);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(NoAnswer::Broken)?;
        if frame.data_ref().is_some_and(|piece| reader.piece(piece).is_break()) {
            return Ok(body);
        }
    }
    reader.end();
    Ok(body)
}

async fn drain(body: &mut HyperOutgoingBody) -> std::convert::Infallible {
    while let Some(Ok(_)) = body.frame().await {}
    std::future::pending().await
}

async fn poll_once<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

impl Post {
    fn into_request(
        self,
    ) -> wasmtime::Result<Request<impl Body<Data = Bytes, Error = wasmtime_wasi_http::Error>>> {
        let uri = format!("http://{AUTHORITY}{}", self.path);
        let mut request = Request::builder().method(Method::POST).uri(uri);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let request = request.header(CONTENT_LENGTH, self.body.len());
        let body = Full::new(Bytes::from(self.body)).map_err(|never| match never {});
        Ok(request.body(body)?)
    }
}

/// Maximum number of bytes read of an invalid answer.
const MAX_REFUSAL: u64 = 64 << 10;

/// Maximum number of characters of a session's id; usual ids have 36.
const MAX_SESSION: usize = 1000;

/// The answer to a request, as received so far.
pub(super) struct Reply<'a> {
    method: &'static str,
    /// The request's; `None` for a notification, which has no answer.
    id: Option<u64>,
    news: &'a mut News,
    most: u64,
    form: Form,
    status: u16,
    status_line: String,
    media_type: String,
    /// The session that the server opened.
    pub(super) session: Option<String>,
    outcome: Option<Result<Value, Failure>>,
}

enum Form {
    Whole(Vec<u8>),
    Events(Frames),
}

impl<'a> Reply<'a> {
    /// Returns the reply to a request. A message may have at most `most` bytes.
    pub(super) fn new(method: &'static str, id: Option<u64>, (news, most): (&'a mut News, u64)) -> Self {
        Self {
            method,
            id,
            news,
            most,
            form: Form::Whole(Vec::new()),
            status: 0,
            status_line: String::new(),
            media_type: String::new(),
            session: None,
            outcome: None,
        }
    }

    pub(super) fn outcome(self) -> Result<Value, Failure> {
        let is_success = (200..300).contains(&self.status);
        match self.outcome {
            Some(outcome) => outcome,
            None if !is_success || self.media_type.is_empty() => {
                Err(Failure::wrong(self.method, &format!("is {}", self.status_line)))
            }
            None => {
                let (line, media_type) = (&self.status_line, shown(&self.media_type));
                Err(Failure::wrong(self.method, &format!("is {line} with `{media_type}` and no message")))
            }
        }
    }

    fn too_long(&mut self) -> ControlFlow<()> {
        self.outcome = Some(Err(Failure::Ended(TooLong(self.most).into())));
        ControlFlow::Break(())
    }

    /// Reads a message or, as older versions permit, a list of messages.
    fn message(&mut self, text: &[u8]) -> ControlFlow<()> {
        match haft_core::json::read(text) {
            Ok(Value::Array(messages)) => messages.into_iter().try_for_each(|one| self.one(one)),
            Ok(message) => self.one(message),
            Err(error) => {
                let why = format!("is not JSON: {}", shown(&error.to_string()));
                self.outcome = Some(Err(Failure::wrong(self.method, &why)));
                ControlFlow::Break(())
            }
        }
    }

    fn one(&mut self, message: Value) -> ControlFlow<()> {
        let Some(id) = self.id else { return ControlFlow::Continue(()) };
        match Message::read(message, id) {
            Message::Answer(answer) => self.outcome = Some(answer),
            Message::Notification { method, params } => self.news.tell(&method, &params),
            // A server that sends `ping` continues without an answer.
            Message::Request { method } if method != "ping" => {
                let why =
                    format!("requests `{}`, but a plugin cannot send requests during a call", shown(&method));
                self.outcome = Some(Err(Failure::wrong(self.method, &why)));
            }
            Message::Request { .. } | Message::Other => {}
        }
        if self.outcome.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn head(&mut self, head: &Parts) {
        let header = |name: &str| head.headers.get(name)?.to_str().ok();
        // With its usual reason, such as `404 Not Found`.
        (self.status, self.status_line) = (head.status.as_u16(), head.status.to_string());
        let media_type = header(CONTENT_TYPE.as_str()).unwrap_or_default();
        // Without its parameters.
        self.media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        self.session = header("mcp-session-id").filter(|id| id.len() <= MAX_SESSION).map(str::to_owned);
        if self.media_type == "text/event-stream" {
            let most = usize::try_from(self.most).unwrap_or(usize::MAX);
            self.form = Form::Events(Frames::new(Framing::Events, most));
        } else if !matches!(&*self.media_type, "application/json" | "") || !(200..300).contains(&self.status)
        {
            self.most = self.most.min(MAX_REFUSAL);
        }
    }

    /// Reads a piece. [`ControlFlow::Break`]: the rest is not needed.
    fn piece(&mut self, piece: &[u8]) -> ControlFlow<()> {
        if self.id.is_none() {
            return ControlFlow::Continue(());
        }
        let mut frames = Vec::new();
        let cut = match &mut self.form {
            Form::Whole(whole) if (whole.len() + piece.len()) as u64 > self.most => Err(()),
            Form::Whole(whole) => {
                whole.extend_from_slice(piece);
                Ok(())
            }
            Form::Events(events) => events.push(piece, &mut frames).map_err(|_| ()),
        };
        // A message before an oversized one may be the answer.
        frames.iter().filter(|frame| !frame.is_empty()).try_for_each(|frame| self.message(frame))?;
        if cut.is_err() { self.too_long() } else { ControlFlow::Continue(()) }
    }

    /// Ends an answer that was needed completely.
    fn end(&mut self) {
        let mut frames = Vec::new();
        match &mut self.form {
            Form::Events(events) => events.finish(&mut frames),
            Form::Whole(whole) if matches!(&*self.media_type, "application/json" | "") => {
                frames.push(std::mem::take(whole));
            }
            Form::Whole(_) => {}
        }
        // The first message that ends the request is the answer.
        let _ = frames.iter().filter(|frame| !frame.is_empty()).try_for_each(|frame| self.message(frame));
    }
}
