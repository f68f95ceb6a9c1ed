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
use tokio_util::sync::{CancellationToken, DropGuard};

use super::admission::{self, Admission};
use super::body::{Bodies, MAX_BODY};
use super::public::Public;
use super::refusal::{HttpResponse, Refusal};
use super::sessions::{Home, MISSING, SessionGuard, Sessions};
use super::short_path::{Caller, ShortPath, Tried};
use super::slots::{ConnectionSlot, RequestGuard};
use super::{PATH, batch, body, message, origin};
use crate::server::bounds;
use crate::server::handler::{Handler, ServerShared};
use haft_core::net::is_loopback_address;
use haft_core::scan::Scan;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The checks of every request, and what answers it behind them.
pub(super) struct Gate {
    admission: Admission,
    public: Public,
    /// For clients that are not told apart.
    shared: ServerShared,
    hosts: Vec<String>,
    bodies: Bodies,
    sessions: Arc<Sessions>,
    short_path: ShortPath,
    service: StreamableHttpService<Arc<Handler>, Sessions>,
    /// haft's own, on which everything runs that takes time.
    runtime: Handle,
    closing: CancellationToken,
    _tidying: DropGuard,
}

/// Whether the other end of a connection is on this machine.
fn is_here(connection: &HttpConnection) -> bool {
    connection.local.is_some_and(|local| is_loopback_address(local.ip()))
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
    /// A gate with room for `most` sessions, which live at `home` where there are other replicas, that waits for bodies
    /// for so long. Requests are handled on the runtime of the caller.
    pub(super) fn new(
        shared: &ServerShared,
        (admission, public): (Admission, Public),
        hosts: Vec<String>,
        (most, home): (usize, Option<Home>),
        patience: Duration,
    ) -> Self {
        let (sessions, closing) = (Arc::new(Sessions::new(most, home)), CancellationToken::new());
        // Host and origin are checked by `origin`, which knows the connection; `sessions` begins streams.
        let mut config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_sse_retry(None)
            .with_max_request_body_bytes(MAX_BODY)
            .with_cancellation_token(closing.clone());
        let (bodies, short_path, runtime) =
            (Bodies::new(patience), ShortPath::new(shared), Handle::current());
        let shared = shared.clone();
        config.session_store = Some(sessions.clone());
        let tidying = CancellationToken::new();
        runtime.spawn(tidying.clone().run_until_cancelled_owned(sessions.clone().tidy()));
        let service = StreamableHttpService::new(Sessions::handler, sessions.clone(), config);
        let tidying = tidying.drop_guard();
        Self {
            admission,
            public,
            shared,
            hosts,
            bodies,
            sessions,
            short_path,
            service,
            runtime,
            closing,
            _tidying: tidying,
        }
    }

    /// What is answered without a token.
    pub(super) fn public(&self) -> &Public {
        &self.public
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

    /// Who a request comes from.
    async fn admit(&self, headers: &HeaderMap) -> Result<ServerShared, Refusal> {
        self.admission.admit(headers, &self.shared, &self.runtime).await.map_err(|denied| {
            let metadata = self.public.metadata_url(headers, &self.admission);
            admission::refusal(&denied, metadata.as_deref())
        })
    }

    async fn check_and_handle(
        &self,
        request: Request<Incoming>,
        connection: &HttpConnection,
    ) -> Result<HttpResponse, Refusal> {
        let source = self.check_source(request.headers(), connection.local);
        if let Some(answer) = self.public.health(&request, source.is_ok() && is_here(connection)) {
            return Ok(answer);
        }
        source?;
        if self.public.is_closed() {
            let why = "haft is about to end; call another one, or try again later";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).and_close());
        }
        if let Some(answer) = self.public.answer(&request, &self.admission) {
            return Ok(answer);
        }
        let client = self.admit(request.headers()).await?;
        check_head(&request)?;
        // Without a token, a complete request makes a connection a client's.
        let shown = self.admission.asks().then(|| begin(connection)).transpose()?;
        let (mut head, body) = request.into_parts();
        let body = self.bodies.read(body).await?.of_whole_characters();
        let scan = Scan::from_message(&body.bytes);
        if let Some(refusal) = beyond_bounds(&scan) {
            return Ok(refusal);
        }
        let busy = shown.map_or_else(|| begin(connection), Ok)?;
        let session = session_of(&head.headers);
        if let Some(why) = session.as_ref().and_then(|id| self.sessions.refusal(id, client.caller())) {
            return Err(Refusal::new(StatusCode::NOT_FOUND, why));
        }
        let in_use = session.as_ref().and_then(|id| self.sessions.enter(id, true));
        let ends = head.method == Method::DELETE;
        if ends && session.is_some() && in_use.is_none() {
            return Err(Refusal::new(StatusCode::NOT_FOUND, MISSING));
        }
        if ends && let Some(id) = &session {
            self.sessions.forget(id);
        }
        let caller = match &in_use {
            Some(in_use) => in_use.handler().map_or(Caller::Unknown, Caller::Session),
            None if session.is_some() => Caller::Unknown,
            None => Caller::Sessionless(client.clone()),
        };
        let batch = head.method == Method::POST && batch::is_meant(&head.headers, &scan) && in_use.is_some();
        let answered =
            if batch { Box::pin(self.answer_batch(&client, &head, &body.bytes)).await? } else { None };
        let tried = answered
            .map_or_else(|| self.short_path.answer(&head, &body.bytes, &scan, caller), Tried::Answered);
        let answer = match tried {
            Tried::Answered(answer) => answer,
            Tried::Begun(call) => {
                head.extensions.insert(call);
                self.handle(client, head, &body.bytes, ends).await?
            }
            Tried::Nothing => self.handle(client, head, &body.bytes, ends).await?,
        };
        let opened = session_of(answer.headers());
        let in_use = opened.and_then(|id| self.sessions.enter(&id, false)).or(in_use);
        Ok(answer.map(|body| HeldBody { body, _in_use: in_use, _busy: busy }.boxed()))
    }

    /// Answers a batch of a session, message by message.
    async fn answer_batch(
        &self,
        client: &ServerShared,
        head: &Parts,
        body: &Bytes,
    ) -> Result<Option<HttpResponse>, Refusal> {
        let Some(messages) = batch::messages(body) else { return Ok(None) };
        let mut answers = Vec::new();
        for message in messages {
            let answer = self.handle(client.clone(), head.clone(), &message, false).await?;
            answers.extend(batch::answer_in(answer).await);
        }
        Ok(Some(batch::joined(&answers)))
    }

    /// Has rmcp handle a request, on haft's runtime.
    async fn handle(
        &self,
        client: ServerShared,
        head: Parts,
        body: &Bytes,
        ends: bool,
    ) -> Result<HttpResponse, Refusal> {
        let (service, body) = (self.service.clone(), body.clone());
        let handling = self.runtime.spawn(async move {
            let is_json = message::is_json(&head.headers);
            let request = Request::from_parts(head, Full::new(body.clone()));
            let (answer, is_full) =
                Box::pin(Sessions::observe_refusal(Some(client), service.handle(request))).await;
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

    /// Checks that a request is meant for this server, and comes from no foreign page.
    fn check_source(&self, headers: &HeaderMap, local: Option<SocketAddr>) -> Result<(), Refusal> {
        let refusal = origin::refusal(headers, local, &self.hosts);
        refusal.map_or(Ok(()), |(status, why)| Err(Refusal::new(status, why)))
    }
}

/// Checks what a request asks for.
fn check_head(request: &Request<Incoming>) -> Result<(), Refusal> {
    if request.uri().path() != PATH {
        return Err(Refusal::new(StatusCode::NOT_FOUND, format!("nothing is here; MCP is at `{PATH}`")));
    }
    if body::is_too_large(request.headers()) { Err(body::too_large()) } else { Ok(()) }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::server::http::Readiness;
    use crate::server::{Publisher, ServerInfo, ToolSnapshot};
    use haft_core::tool::{Session, Toolbox};

    /// So long something takes only where it hangs.
    const HANG: Duration = Duration::from_mins(5);

    fn no_tools() -> ToolSnapshot {
        ToolSnapshot::new(Toolbox::default(), Session::default(), ServerInfo::default(), true)
    }

    async fn send(gate: &Gate, method: Method, session: &str, message: &Value) -> HttpResponse {
        let mut request = Request::builder()
            .method(method)
            .uri(PATH)
            .header("host", "localhost")
            .header("accept", "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json");
        if !session.is_empty() {
            request = request.header(SESSION, session).header("mcp-protocol-version", "2025-11-25");
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        gate.handle(gate.shared.clone(), head, &Bytes::from(message.to_string()), false).await.unwrap()
    }

    async fn post(gate: &Gate, session: &str, message: &Value) -> (StatusCode, String) {
        let answer = send(gate, Method::POST, session, message).await;
        let status = answer.status();
        let body = tokio::time::timeout(HANG, answer.into_body().collect()).await.unwrap().unwrap();
        (status, String::from_utf8(body.to_bytes().into()).unwrap())
    }

    /// A gate, and a session behind it.
    async fn opened(shared: &ServerShared) -> (Gate, String) {
        let readiness = tokio::sync::watch::channel(Readiness::default()).1;
        let public = Public::new(shared.snapshots.clone(), None, readiness);
        let gate = Gate::new(shared, (Admission::Anybody, public), Vec::new(), (8, None), HANG);
        let open = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"}
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": open});
        let answer = send(&gate, Method::POST, "", &message).await;
        let session = session_of(answer.headers()).unwrap();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(post(&gate, &session, &initialized).await.0, StatusCode::ACCEPTED);
        (gate, session)
    }

    /// C05: rmcp lets go of a session that nobody uses, which is the same one when it is used again.
    #[tokio::test]
    async fn c05_a_session_that_rests_is_the_same_afterwards() {
        let (publisher, snapshots) = Publisher::new(no_tools());
        let shared = ServerShared::new(snapshots, "test");
        let (gate, session) = opened(&shared).await;
        let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
        assert!(post(&gate, &session, &list).await.1.contains("\"tools\":[]"));
        let handler = gate.sessions.enter(&session, true).unwrap().handler().unwrap();
        assert_eq!(gate.sessions.sweep(HANG).await, 0, "it was used just now");
        assert_eq!(gate.sessions.sweep(Duration::ZERO).await, 1);
        assert_eq!(gate.sessions.counts().await, (0, 1));
        tokio::time::timeout(HANG, gate.sessions.all_rest()).await.unwrap();
        let resting = gate.sessions.enter(&session, true).unwrap().handler().unwrap();
        assert!(Arc::ptr_eq(&handler, &resting), "the client is the same");
        assert!(gate.sessions.has(&session), "that rmcp has let go of it is not its end");
        // What is there instead is other tools for all that is known.
        publisher.publish(no_tools());
        assert!(post(&gate, &session, &list).await.1.contains("\"tools\":[]"));
        assert_eq!(gate.sessions.counts().await, (1, 1));
        let guard = gate.sessions.enter(&session, true).unwrap();
        assert!(Arc::ptr_eq(&guard.handler().unwrap(), &handler), "the client is the same");
        assert_eq!(gate.sessions.sweep(Duration::ZERO).await, 0, "it is in use");
        let mut events = send(&gate, Method::GET, &session, &Value::Null).await.into_body();
        let missed = async {
            let mut told = String::new();
            while !told.contains("notifications/tools/list_changed") {
                let frame = events.frame().await.unwrap().unwrap();
                told += std::str::from_utf8(frame.data_ref().unwrap()).unwrap();
            }
        };
        tokio::time::timeout(HANG, missed).await.expect("what it missed is told");
        drop((events, guard));
        assert_eq!(gate.sessions.sweep(Duration::ZERO).await, 1);
        gate.sessions.forget(&session);
        assert_eq!(post(&gate, &session, &list).await.0, StatusCode::NOT_FOUND);
        assert_eq!(gate.sessions.counts().await, (0, 0));
    }
}
