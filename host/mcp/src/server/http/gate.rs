//! The checks of every HTTP request before it is answered: host and origin, path, token, size and types, and room
//! for another request. A refusal is one line of text. The endpoint answers admitted requests. Small bodies, which
//! nearly all are, are always read; large ones share a memory budget, and are refused beyond it.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use hyper::{HeaderMap, Method, Request, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::PATH;
use super::admission::{self, Admission};
use super::connection::{ConnectionSlot, RequestGuard};
use super::endpoint::Endpoint;
use super::public::Public;
use super::response::{EVENTS, HttpResponse, JSON, Refusal};
use crate::server::handler::ServerShared;
use haft_core::json;
use haft_core::net::is_loopback_address;

/// Maximum number of bytes of a body: a file to be written, in JSON.
const MAX_BODY: usize = 8 << 20;

/// Number of bytes of a body that is always read: a call with a screenful of arguments.
const SMALL: usize = 64 << 10;

/// Maximum number of bytes of all larger bodies at one time: sixteen complete ones.
const MAX_BODIES: usize = 16 * MAX_BODY;

/// The checks of every request, and what answers it behind them.
pub(super) struct Gate {
    admission: Admission,
    pub(super) public: Public,
    /// For clients that are not distinguished.
    pub(super) shared: ServerShared,
    hosts: Vec<String>,
    bodies: Bodies,
    pub(super) endpoint: Endpoint,
    /// Cancelled when the server accepts no more requests.
    pub(super) ended: CancellationToken,
}

pub(super) struct HttpConnection {
    pub(super) place: ConnectionSlot,
    /// The local address of the request's connection.
    pub(super) local: Option<SocketAddr>,
}

/// The memory budget of all bodies of a server.
struct Bodies {
    room: Arc<Semaphore>,
    patience: Duration,
}

/// The room that a body takes.
type Room = Option<OwnedSemaphorePermit>;

impl Gate {
    /// Returns a gate before `endpoint`, which waits for a body for at most `patience`. Requests are handled on the
    /// caller's runtime.
    pub(super) fn new(
        shared: ServerShared,
        (admission, public): (Admission, Public),
        hosts: Vec<String>,
        endpoint: Endpoint,
        patience: Duration,
    ) -> Self {
        let (bodies, ended) = (Bodies::new(patience), CancellationToken::new());
        Self { admission, public, shared, hosts, bodies, endpoint, ended }
    }

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

    /// Returns the caller of a request.
    async fn admit(&self, headers: &HeaderMap) -> Result<ServerShared, Refusal> {
        self.admission.admit(headers, &self.shared, &self.endpoint.runtime).await.map_err(|denied| {
            let metadata = self.public.metadata_url(headers, &self.admission);
            admission::refusal(&denied, metadata.as_deref())
        })
    }

    async fn check_and_handle(
        &self,
        request: Request<Incoming>,
        connection: &HttpConnection,
    ) -> Result<HttpResponse, Refusal> {
        let source = admission::check_source(request.headers(), connection.local, &self.hosts);
        let is_mcp = request.uri().path() == PATH;
        let is_own = || source.is_ok() && connection.local.is_some_and(|at| is_loopback_address(at.ip()));
        if !is_mcp && let Some(answer) = self.public.health(&request, is_own()) {
            return Ok(answer);
        }
        source?;
        if self.ended.is_cancelled() {
            let why = "haft is shutting down; use another replica, or try again later";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).and_close());
        }
        if !is_mcp && let Some(answer) = self.public.answer(&request, &self.admission) {
            return Ok(answer);
        }
        let caller = self.admit(request.headers()).await?;
        if !is_mcp {
            let why = format!("not found; the MCP endpoint is `{PATH}`");
            return Err(Refusal::new(StatusCode::NOT_FOUND, why));
        }
        check_head(&request)?;
        // Without a token, a complete request makes a connection a client's.
        let shown = self.admission.asks().then(|| begin(connection)).transpose()?;
        let (head, body) = request.into_parts();
        let (mut body, _room) = self.bodies.read(body).await?;
        if let Cow::Owned(whole) = json::whole_characters(&body) {
            body = whole.into();
        }
        let busy = shown.map_or_else(|| begin(connection), Ok)?;
        let answer = self.endpoint.answer(&head.method, &head.headers, &body, caller).await?;
        // The connection is in use until the body is sent.
        let keep = move |error| {
            let _ = &busy;
            error
        };
        Ok(answer.map(|body| body.map_err(keep).boxed_unsync()))
    }
}

impl Bodies {
    /// Creates a budget whose bodies are awaited for at most `patience`.
    fn new(patience: Duration) -> Self {
        Self { room: Arc::new(Semaphore::new(MAX_BODIES)), patience }
    }

    async fn read(&self, body: Incoming) -> Result<(Bytes, Room), Refusal> {
        let whole = tokio::time::timeout(self.patience, self.collect(body)).await;
        whole.unwrap_or_else(|_| {
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"))
        })
    }

    async fn collect(&self, mut body: Incoming) -> Result<(Bytes, Room), Refusal> {
        let (mut bytes, mut room) = (BytesMut::new(), None);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                Refusal::new(StatusCode::BAD_REQUEST, format!("the body cannot be read: {error}"))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > MAX_BODY {
                return Err(too_large());
            }
            if bytes.len() + data.len() > SMALL {
                self.reserve(data.len(), &mut room)?;
            }
            bytes.extend_from_slice(&data);
        }
        Ok((bytes.freeze(), room))
    }

    fn reserve(&self, bytes: usize, room: &mut Room) -> Result<(), Refusal> {
        let count = u32::try_from(bytes).unwrap_or(u32::MAX);
        let more = self.room.clone().try_acquire_many_owned(count).map_err(|_| {
            let why = "too many large bodies at once; try again later";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
        })?;
        match room {
            Some(room) => room.merge(more),
            None => *room = Some(more),
        }
        Ok(())
    }
}

/// Checks the declared size of a request, that its client accepts the forms of an answer, and that it sends JSON.
fn check_head(request: &Request<impl Sized>) -> Result<(), Refusal> {
    let headers = request.headers();
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if length.and_then(|length| length.parse().ok()).is_some_and(|length: u64| length > MAX_BODY as u64) {
        return Err(too_large());
    }
    let is_post = *request.method() == Method::POST;
    if is_post && !(accepts(headers, JSON) && accepts(headers, EVENTS)) {
        let why = "expected `Accept: application/json, text/event-stream`";
        return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, why));
    }
    if *request.method() == Method::GET && !accepts(headers, EVENTS) {
        return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, "expected `Accept: text/event-stream`"));
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_json = content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(JSON);
    if is_post && !is_json {
        let why = "expected `Content-Type: application/json`";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    Ok(())
}

/// Returns whether `Accept` names `kind`, and not with the weight 0.
fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let is_meant = parts.next().is_some_and(|own| own.eq_ignore_ascii_case(kind));
        is_meant && !parts.any(is_weight_of_nothing)
    })
}

fn is_weight_of_nothing(parameter: &str) -> bool {
    let weight = parameter.split_once('=').filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    weight.is_some_and(|(_, weight)| weight.trim().parse::<f32>().is_ok_and(|weight| weight == 0.0))
}

fn too_large() -> Refusal {
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {} MiB", MAX_BODY >> 20))
}

fn begin(connection: &HttpConnection) -> Result<RequestGuard, Refusal> {
    let why = "all connections are in use; try again later";
    let full = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).and_close();
    connection.place.begin().ok_or_else(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S11: concurrent bodies have a common limit, and their room is returned.
    #[test]
    fn large_bodies_share_their_room() {
        let bodies = Bodies::new(Duration::ZERO);
        let mut held = Vec::new();
        for _ in 0..16 {
            let mut room = None;
            bodies.reserve(MAX_BODY / 2, &mut room).unwrap();
            bodies.reserve(MAX_BODY / 2, &mut room).unwrap();
            held.push(room);
        }
        assert!(bodies.reserve(1, &mut None).is_err());
        held.pop();
        let mut room = None;
        assert!(bodies.reserve(MAX_BODY, &mut room).is_ok() && bodies.reserve(1, &mut room).is_err());
    }

    #[test]
    fn a_client_takes_both_forms_and_sends_json() {
        const BOTH: &str = "application/json, text/event-stream";
        for (fits, accept, content_type) in [
            (true, BOTH, "application/json"),
            (true, "text/event-stream;q=0.5,Application/JSON", "application/json; charset=utf-8"),
            (false, "application/json", "application/json"),
            (false, "application/json, text/event-stream; q=0.0", "application/json"),
            (false, "*/*", "application/json"),
            (false, BOTH, "text/plain"),
        ] {
            let request = Request::post(PATH).header(ACCEPT, accept).header(CONTENT_TYPE, content_type);
            assert_eq!(check_head(&request.body(()).unwrap()).is_ok(), fits, "{accept}, {content_type}");
        }
    }
}
