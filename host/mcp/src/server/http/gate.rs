//! The checks that every HTTP request passes before it is answered: host and origin, path, token, size, and room for
//! another request. A refusal is one line of text. What passes is answered by the endpoint.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::{HeaderMap, Request, StatusCode};
use tokio::runtime::Handle;

use super::admission::{self, Admission};
use super::body::{Bodies, is_too_large, too_large};
use super::endpoint::Endpoint;
use super::public::Public;
use super::response::{HttpResponse, Refusal};
use super::slots::{ConnectionSlot, RequestGuard};
use super::{PATH, origin};
use crate::server::handler::ServerShared;
use haft_core::net::is_loopback_address;

/// The checks of every request, and what answers it behind them.
pub(super) struct Gate {
    admission: Admission,
    public: Public,
    /// For clients that are not told apart.
    shared: ServerShared,
    hosts: Vec<String>,
    bodies: Bodies,
    endpoint: Endpoint,
    /// haft's own, for what takes time or opens connections.
    runtime: Handle,
}

/// Whether the other end of a connection is on this machine.
fn is_here(connection: &HttpConnection) -> bool {
    connection.local.is_some_and(|local| is_loopback_address(local.ip()))
}

/// The connection that a request came on.
pub(super) struct HttpConnection {
    pub(super) place: ConnectionSlot,
    /// Where it arrived.
    pub(super) local: Option<SocketAddr>,
}

impl Gate {
    /// A gate before `endpoint`, which waits for bodies for so long. Requests are handled on the runtime of the caller.
    pub(super) fn new(
        shared: &ServerShared,
        (admission, public): (Admission, Public),
        hosts: Vec<String>,
        endpoint: Endpoint,
        patience: Duration,
    ) -> Self {
        let (shared, bodies, runtime) = (shared.clone(), Bodies::new(patience), Handle::current());
        Self { admission, public, shared, hosts, bodies, endpoint, runtime }
    }

    /// What is answered without a token.
    pub(super) fn public(&self) -> &Public {
        &self.public
    }

    /// Ends every stream.
    pub(super) fn close(&self) {
        self.endpoint.close();
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
        let caller = self.admit(request.headers()).await?;
        check_head(&request)?;
        // Without a token, a complete request makes a connection a client's.
        let shown = self.admission.asks().then(|| begin(connection)).transpose()?;
        let (head, body) = request.into_parts();
        let body = self.bodies.read(body).await?.of_whole_characters();
        let busy = shown.map_or_else(|| begin(connection), Ok)?;
        let answer = self.endpoint.answer(&head.method, &head.headers, &body.bytes, caller).await?;
        Ok(answer.map(|body| BusyBody { body, _busy: busy }.boxed_unsync()))
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
    if is_too_large(request.headers()) { Err(too_large()) } else { Ok(()) }
}

/// A client's request begins.
fn begin(connection: &HttpConnection) -> Result<RequestGuard, Refusal> {
    let why = "all connections are in use; try again later";
    let full = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).and_close();
    connection.place.begin().ok_or_else(full)
}

/// A body that keeps its connection in use until it is sent.
struct BusyBody {
    body: UnsyncBoxBody<Bytes, Infallible>,
    _busy: RequestGuard,
}

impl Body for BusyBody {
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
