//! Responses that need no token: liveness and readiness, for orchestrators and monitoring, and the tokens that the
//! server accepts (RFC 9728, protected resource metadata). They reveal nothing about tools, callers or calls.

use std::time::{Duration, Instant};

use haft_core::sync::Lock;
use hyper::header::{ALLOW, CACHE_CONTROL, HOST, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::PATH;
use super::admission::Admission;
use super::response::{self, HttpResponse};
use crate::server::snapshot::ToolSnapshots;

/// Liveness: any answer confirms it.
const HEALTH: &str = "/healthz";

/// Readiness: all plugins and servers are listed, nothing is missing, and the server does not drain.
const READY: &str = "/readyz";

/// Maximum interval of requests of a load balancer.
const WATCHED: Duration = Duration::from_mins(1);

/// The path of the metadata of a resource at `/`.
const METADATA: &str = "/.well-known/oauth-protected-resource";

/// The state of these responses.
pub(super) struct Public {
    snapshots: ToolSnapshots,
    /// The public URL of the server in program.toml.
    url: Option<String>,
    readiness: watch::Receiver<Readiness>,
    /// The time of the last request for readiness.
    asked: Lock<Option<Instant>>,
    /// Cancelled when haft is to end: it is not ready from then on.
    pub(super) ending: CancellationToken,
}

/// The missing parts of a server, for its operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// The reasons why the server is not ready, one a line.
    pub missing: Vec<String>,
    /// Other failures, one a line.
    pub notes: Vec<String>,
}

impl Public {
    pub(super) fn new(
        snapshots: ToolSnapshots,
        url: Option<String>,
        readiness: watch::Receiver<Readiness>,
    ) -> Self {
        let (asked, ending) = Default::default();
        Self { snapshots, url, readiness, asked, ending }
    }

    /// Returns whether readiness was asked for recently, as a load balancer does.
    pub(super) fn is_watched(&self) -> bool {
        self.asked.lock().is_some_and(|asked| asked.elapsed() < WATCHED)
    }

    /// Returns the answer if `request` is for liveness or readiness, under any host name. Lists the missing parts
    /// if `is_own`: for requests of this machine, under its own names, and not from a foreign web page.
    pub(super) fn health<B>(&self, request: &Request<B>, is_own: bool) -> Option<HttpResponse> {
        let answer = match request.uri().path() {
            HEALTH => plain(StatusCode::OK, "ok\n".into()),
            READY => self.ready(is_own),
            _ => return None,
        };
        Some(for_readers(request, answer))
    }

    fn ready(&self, is_own: bool) -> HttpResponse {
        *self.asked.lock() = Some(Instant::now());
        let Readiness { mut missing, notes } = self.readiness.borrow().clone();
        if !self.snapshots.now().is_complete {
            missing.insert(0, "plugins and servers are still being listed".into());
        }
        if self.ending.is_cancelled() {
            missing.insert(0, "haft is shutting down".into());
        }
        let (status, word) = if missing.is_empty() {
            (StatusCode::OK, "ready")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready")
        };
        let lines = missing.iter().chain(&notes).filter(|_| is_own);
        plain(status, lines.fold(format!("{word}\n"), |text, line| format!("{text}{line}\n")))
    }

    /// Returns the answer if `request` is for the metadata.
    pub(super) fn answer<B>(&self, request: &Request<B>, admission: &Admission) -> Option<HttpResponse> {
        let answer = self.metadata(request.uri().path(), request.headers(), admission)?;
        Some(for_readers(request, answer))
    }

    /// Returns the absolute URL of the metadata, if they exist.
    pub(super) fn metadata_url(&self, headers: &HeaderMap, admission: &Admission) -> Option<String> {
        admission.issuers()?;
        let resource = self.resource(headers)?;
        let (scheme, rest) = resource.split_once("://")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // RFC 9728, section 3.1: between the host and the path of the resource.
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Some(format!("{scheme}://{authority}{METADATA}{path}"))
    }

    /// Returns the server, as clients call it. `Host` was judged before.
    fn resource(&self, headers: &HeaderMap) -> Option<String> {
        let named = || headers.get(HOST)?.to_str().ok().map(|host| format!("http://{host}{PATH}"));
        self.url.clone().or_else(named)
    }

    fn metadata(&self, path: &str, headers: &HeaderMap, admission: &Admission) -> Option<HttpResponse> {
        let rest = path.strip_prefix(METADATA)?;
        let is_of_url = |url: &String| path_of(url).is_some_and(|path| rest.strip_prefix('/') == Some(path));
        let is_here = rest.is_empty() || rest == PATH || self.url.as_ref().is_some_and(is_of_url);
        let (issuers, scopes) = admission.issuers().filter(|_| is_here)?;
        let mut metadata = json!({
            "resource": self.resource(headers)?,
            "resource_name": "haft",
            "authorization_servers": issuers,
            "bearer_methods_supported": ["header"],
        });
        if let Some(metadata) = metadata.as_object_mut().filter(|_| !scopes.is_empty()) {
            metadata.insert("scopes_supported".to_owned(), json!(scopes));
        }
        Some(response::whole(StatusCode::OK, response::JSON, metadata.to_string()))
    }
}

/// Returns the part of a URL after the host, without the first `/`.
fn path_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split_once('/').map(|(_, path)| path)
}

/// Returns `answer` to GET and HEAD, and 405 to any other method.
fn for_readers<B>(request: &Request<B>, answer: HttpResponse) -> HttpResponse {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return answer;
    }
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "expected GET\n".into());
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}

fn plain(status: StatusCode, text: String) -> HttpResponse {
    let mut answer = response::whole(status, "text/plain; charset=utf-8", text);
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
