//! The checks that every HTTP request passes before it is answered: host and origin, path, token, size, and room for
//! another request. A refusal is one line of text. What passes is answered at once (`short_path`) or by rmcp, on haft's
//! runtime.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::body::{Bodies, MAX_BODY};
use super::refusal::{HttpResponse, Refusal};
use super::sessions::{SessionGuard, Sessions};
use super::short_path::{Caller, ShortPath, Tried};
use super::slots::{ConnectionSlot, RequestGuard};
use super::token::Token;
use super::{body, message, origin};
use crate::server::bounds;
use crate::server::handler::{Handler, ServerShared};
use haft_core::scan::Scan;

/// The path that is served.
pub const PATH: &str = "/mcp";

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The checks of every request, and what answers it behind them.
pub(super) struct Gate {
    token: Option<Token>,
    hosts: Vec<String>,
    bodies: Bodies,
    sessions: Arc<Sessions>,
    short_path: ShortPath,
    service: StreamableHttpService<Arc<Handler>, Sessions>,
    /// haft's own, on which everything runs that takes time.
    runtime: Handle,
    closing: CancellationToken,
}

/// Stops a task that nobody waits for any more.
struct StopOnDrop(AbortHandle);

/// The connection that a request came on.
pub(super) struct HttpConnection {
    pub(super) place: ConnectionSlot,
    /// Where it arrived.
    pub(super) local: Option<SocketAddr>,
}

impl Gate {
    /// A gate with room for `most` sessions, that waits for bodies for so long. Requests are handled on the runtime of
    /// the caller.
    pub(super) fn new(
        shared: &ServerShared,
        token: Option<Token>,
        hosts: Vec<String>,
        most: usize,
        patience: Duration,
    ) -> Self {
        let (sessions, closing) = (Arc::new(Sessions::new(most)), CancellationToken::new());
        // Host and origin are checked by `origin`, which knows the connection; `sessions` begins streams.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_sse_retry(None)
            .with_max_request_body_bytes(MAX_BODY)
            .with_cancellation_token(closing.clone());
        let (bodies, short_path, runtime) =
            (Bodies::new(patience), ShortPath::new(shared), Handle::current());
        let shared = shared.clone();
        let handler = move || Ok(Sessions::note_handler(shared.handler()));
        let service = StreamableHttpService::new(handler, sessions.clone(), config);
        Self { token, hosts, bodies, sessions, short_path, service, runtime, closing }
    }

    /// Ends every stream and session.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    /// Answers a request.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &HttpConnection,
    ) -> HttpResponse {
        match self.check_and_handle(request, connection).await {
            Ok(answer) => answer,
            Err(refusal) => refusal.into_response(),
        }
    }

    async fn check_and_handle(
        &self,
        request: Request<Incoming>,
        connection: &HttpConnection,
    ) -> Result<HttpResponse, Refusal> {
        self.check_head(&request, connection.local)?;
        // Without a token, a complete request makes a connection a client's.
        let shown = self.token.as_ref().map(|_| begin(connection)).transpose()?;
        let (mut head, body) = request.into_parts();
        let body = self.bodies.read(body).await?;
        let scan = Scan::from_message(&body.bytes);
        if let Some(refusal) = beyond_bounds(&scan) {
            return Ok(refusal);
        }
        let busy = shown.map_or_else(|| begin(connection), Ok)?;
        let session = session_of(&head.headers);
        let in_use = session.as_ref().and_then(|id| self.sessions.enter(id, true));
        let ends = head.method == Method::DELETE;
        if ends && session.is_some() && in_use.is_none() {
            return Err(Refusal::new(StatusCode::NOT_FOUND, "there is no such session"));
        }
        let caller = match &in_use {
            Some(in_use) => in_use.handler().map_or(Caller::Unknown, Caller::Session),
            None if session.is_some() => Caller::Unknown,
            None => Caller::Sessionless,
        };
        let answer = match self.short_path.answer(&head, &body.bytes, &scan, caller) {
            Tried::Answered(answer) => answer,
            Tried::Begun(call) => {
                head.extensions.insert(call);
                self.handle(head, &body.bytes, ends).await?
            }
            Tried::Nothing => self.handle(head, &body.bytes, ends).await?,
        };
        let opened = session_of(answer.headers());
        let in_use = opened.and_then(|id| self.sessions.enter(&id, false)).or(in_use);
        Ok(answer.map(|body| HeldBody { body, _in_use: in_use, _busy: busy }.boxed()))
    }

    /// Has rmcp handle a request, on haft's runtime.
    async fn handle(&self, head: Parts, body: &Bytes, ends: bool) -> Result<HttpResponse, Refusal> {
        let (service, body) = (self.service.clone(), body.clone());
        let handling = self.runtime.spawn(async move {
            let is_json = message::is_json(&head.headers);
            let request = Request::from_parts(head, Full::new(body.clone()));
            let (answer, is_full) = Box::pin(Sessions::observe_refusal(service.handle(request))).await;
            let answer = match answer.status() {
                // rmcp says so of every body that it cannot take. Finding out what is wrong with a large one takes long.
                StatusCode::UNSUPPORTED_MEDIA_TYPE if is_json => message::error_response(&body),
                StatusCode::ACCEPTED if ends => with_no_content(answer),
                _ => answer,
            };
            (answer, is_full)
        });
        let _stops = StopOnDrop(handling.abort_handle());
        let (answer, is_full) = handling.await.map_err(|_| {
            let why = "haft could not handle the request; this is a defect of haft";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why)
        })?;
        if is_full {
            let why = "all sessions are in use; try again later";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        Ok(answer)
    }

    /// Checks the head of a request.
    fn check_head(&self, request: &Request<Incoming>, local: Option<SocketAddr>) -> Result<(), Refusal> {
        let headers = request.headers();
        if let Some((status, why)) = origin::refusal(headers, local, &self.hosts) {
            return Err(Refusal::new(status, why));
        }
        if self.token.as_ref().is_some_and(|token| !token.is_shown(headers)) {
            return Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "expected `Authorization: Bearer` and the token of this server",
            ));
        }
        if request.uri().path() != PATH {
            return Err(Refusal::new(StatusCode::NOT_FOUND, format!("nothing is here; MCP is at `{PATH}`")));
        }
        if body::is_too_large(headers) { Err(body::too_large()) } else { Ok(()) }
    }
}

/// A client's request begins.
fn begin(connection: &HttpConnection) -> Result<RequestGuard, Refusal> {
    let why = "all connections are in use; try again later";
    let full = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).and_close();
    connection.place.begin().ok_or_else(full)
}

/// The session that a head names.
fn session_of(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned)
}

/// The answer to a message that is beyond the bounds of one.
fn beyond_bounds(scan: &Scan) -> Option<HttpResponse> {
    let error = bounds::excess(scan)?;
    let message = bounds::refusal(scan.id(), error, false).to_string();
    let mut answer = Response::new(Full::new(Bytes::from(message)).boxed());
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Some(answer)
}

/// The answer to the end of a session that is over: some clients take "accepted" for a failure.
fn with_no_content<B>(mut answer: Response<B>) -> Response<B> {
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A body that keeps its session and its connection in use until it is sent.
struct HeldBody {
    body: BoxBody<Bytes, Infallible>,
    _in_use: Option<SessionGuard>,
    _busy: RequestGuard,
}

impl Body for HeldBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
