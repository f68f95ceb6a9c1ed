//! What is answered without a token: whether haft lives and is ready, for whatever starts and watches it, and which
//! tokens it takes (RFC 9728, protected resource metadata). None of it says anything of tools, callers or calls.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::json;

use super::PATH;
use super::admission::Admission;
use super::refusal::HttpResponse;
use crate::server::snapshot::ToolSnapshots;

/// Whether haft lives: that it answers says so.
const HEALTH: &str = "/healthz";

/// Whether all of its plugins and servers are listed.
const READY: &str = "/readyz";

/// Where the metadata are of a resource at `/`.
const METADATA: &str = "/.well-known/oauth-protected-resource";

/// What is needed to answer.
pub(super) struct Public {
    snapshots: ToolSnapshots,
    /// Where clients find the server, as program.toml says it.
    url: Option<String>,
}

impl Public {
    pub(super) fn new(snapshots: ToolSnapshots, url: Option<String>) -> Self {
        Self { snapshots, url }
    }

    /// The answer, where `request` asks for one of these.
    pub(super) fn answer<B>(&self, request: &Request<B>, admission: &Admission) -> Option<HttpResponse> {
        let path = request.uri().path();
        let answer = match path {
            HEALTH => plain(StatusCode::OK, "ok\n"),
            READY if self.snapshots.are_complete() => plain(StatusCode::OK, "ready\n"),
            READY => plain(StatusCode::SERVICE_UNAVAILABLE, "plugins and servers are still being listed\n"),
            _ => self.metadata(path, request.headers(), admission)?,
        };
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        Some(if reads { answer } else { not_allowed() })
    }

    /// Where the metadata are, as an absolute address, where there are any.
    pub(super) fn metadata_url(&self, headers: &HeaderMap, admission: &Admission) -> Option<String> {
        admission.issuers()?;
        let resource = self.resource(headers)?;
        let (scheme, rest) = resource.split_once("://")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // RFC 9728, section 3.1: between the host and the path of the resource.
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Some(format!("{scheme}://{authority}{METADATA}{path}"))
    }

    /// The server, as clients call it. `Host` was judged before.
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
        let mut answer = Response::new(Full::new(Bytes::from(metadata.to_string())).boxed());
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Some(answer)
    }
}

/// What follows the host of an address, without the first `/`.
fn path_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split_once('/').map(|(_, path)| path)
}

fn plain(status: StatusCode, text: &'static str) -> HttpResponse {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

fn not_allowed() -> HttpResponse {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "expected GET\n");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}
