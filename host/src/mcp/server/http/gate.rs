//! What every request passes before MCP sees it: host and origin, path, token, size, and whether
//! there is room for what it wants. Says no in one line.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::sessions::{InUse, Sessions};
use super::{PATH, Token, origin};
use crate::mcp::scan::Scan;
use crate::mcp::server::bounds;
use crate::mcp::server::handler::{Handler, Shared};

/// Bytes of a request's body: a file to be written, in JSON.
const MAX_BODY: usize = 8 << 20;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// What every request passes.
pub(super) struct Gate {
    token: Option<Token>,
    hosts: Vec<String>,
    patience: Duration,
    sessions: Sessions,
    service: StreamableHttpService<Handler, LocalSessionManager>,
    closing: CancellationToken,
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Why a request is not answered.
struct Refusal {
    status: StatusCode,
    why: String,
}

impl Gate {
    pub(super) fn new(shared: &Shared, token: Option<Token>, hosts: Vec<String>, patience: Duration) -> Self {
        let (sessions, closing) = (Sessions::new(), CancellationToken::new());
        // Both are judged here, with what is known of the connection.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(MAX_BODY)
            .with_cancellation_token(closing.clone());
        let shared = shared.clone();
        let service = StreamableHttpService::new(move || Ok(shared.handler()), sessions.manager(), config);
        Self { token, hosts, patience, sessions, service, closing }
    }

    /// Ends every stream and session.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    /// Answers a request that arrived at `local`.
    pub(super) async fn answer(&self, request: Request<Incoming>, local: Option<SocketAddr>) -> Answer {
        match self.pass(request, local).await {
            Ok(answer) => answer,
            Err(refusal) => refusal.into_answer(),
        }
    }

    async fn pass(&self, request: Request<Incoming>, local: Option<SocketAddr>) -> Result<Answer, Refusal> {
        self.judge(&request, local)?;
        let session = request.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let in_use = match &session {
            Some(id) => self.sessions.enter(id).await,
            None => None,
        };
        let opens = request.method() == Method::POST && session.is_none();
        if opens && !self.sessions.make_room().await {
            return Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "all sessions are in use; try again later",
            ));
        }
        let ends = request.method() == Method::DELETE;
        let (head, body) = request.into_parts();
        let body = self.read(body).await?;
        if let Some(refusal) = beyond_bounds(&body) {
            return Ok(refusal);
        }
        let answer = self.service.handle(Request::from_parts(head, Full::new(body))).await;
        let answer = if ends { done(answer) } else { answer };
        let opened = answer.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let in_use = match opened {
            Some(id) => self.sessions.enter(&id).await,
            None => in_use,
        };
        Ok(answer.map(|body| Held { body, _in_use: in_use }.boxed()))
    }

    /// What can be said without reading the body.
    fn judge(&self, request: &Request<Incoming>, local: Option<SocketAddr>) -> Result<(), Refusal> {
        let headers = request.headers();
        if let Some(why) = origin::refusal(headers, local, &self.hosts) {
            return Err(Refusal::new(StatusCode::FORBIDDEN, why));
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
        let announced =
            headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|length| length > MAX_BODY as u64) {
            Err(Refusal::too_large())
        } else {
            Ok(())
        }
    }

    async fn read(&self, body: Incoming) -> Result<Bytes, Refusal> {
        let whole = tokio::time::timeout(self.patience, Limited::new(body, MAX_BODY).collect()).await;
        match whole {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::too_large()),
            Ok(Err(error)) => {
                Err(Refusal::new(StatusCode::BAD_REQUEST, format!("the body cannot be read: {error}")))
            }
            Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")),
        }
    }
}

/// The answer to a message that is beyond the bounds of one.
fn beyond_bounds(body: &Bytes) -> Option<Answer> {
    let scan = Scan::of(body);
    let error = bounds::excess(&scan)?;
    let message = bounds::refusal(scan.id(), error, false).to_string();
    let mut answer = Response::new(Full::new(Bytes::from(message)).boxed());
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    Some(answer)
}

/// The answer to the end of a session that is over: some clients take "accepted" for a failure.
fn done<B>(mut answer: Response<B>) -> Response<B> {
    if answer.status() == StatusCode::ACCEPTED {
        *answer.status_mut() = StatusCode::NO_CONTENT;
    }
    answer
}

impl Refusal {
    fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }

    fn too_large() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {} MiB", MAX_BODY >> 20))
    }

    fn into_answer(self) -> Answer {
        tracing::info!(status = self.status.as_u16(), why = self.why, "request refused");
        let mut answer = Response::new(Full::new(Bytes::from(self.why + "\n")).boxed());
        *answer.status_mut() = self.status;
        let extra = match self.status {
            StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer realm=\"haft\"")),
            StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, "10")),
            _ => None,
        };
        if let Some((name, value)) = extra {
            answer.headers_mut().insert(name, hyper::header::HeaderValue::from_static(value));
        }
        answer
    }
}

/// A body that keeps its session in use until it was sent.
struct Held {
    body: BoxBody<Bytes, Infallible>,
    _in_use: Option<InUse>,
}

impl Body for Held {
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
