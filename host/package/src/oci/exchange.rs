//! One request and its answer. Redirects are followed here, a few, and never with what was shown
//! to the registry; it refuses an answer that is longer than it may be.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{Body, Client, Method, Request, Response, Url};

use super::error::{Failure, excerpt};
use crate::download::Names;
use haft_core::grant::local;
use haft_core::net::tls;
use haft_core::net::{chain, is_loopback};

/// How long a server may take to take the connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long it may be silent in the middle of an answer.
const SILENCE: Duration = Duration::from_secs(30);
/// Redirects of one request: a registry, its storage, and a storage's own mirror.
const MAX_REDIRECTS: usize = 5;
/// Bytes of an error's body that are read: its message is at the start.
const MAX_ERROR_BODY: usize = 16 << 10;
/// Names haft to the server.
const USER_AGENT: &str = concat!("haft/", env!("CARGO_PKG_VERSION"));

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) accept: Option<&'static str>,
    pub(super) payload: Payload,
    /// Whether a public server leads there.
    pub(super) from_public: bool,
}

/// What goes with a request.
#[derive(Clone, Debug)]
pub(super) enum Payload {
    None,
    Bytes { media_type: String, bytes: Vec<u8> },
    File { path: PathBuf, size: u64 },
}

impl Ask {
    pub(super) fn get(url: Url) -> Self {
        Self { method: Method::GET, url, accept: None, payload: Payload::None, from_public: false }
    }

    async fn request(&self, url: &Url, shown: Option<&HeaderValue>) -> Result<Request, Failure> {
        let mut request = Request::new(self.method.clone(), url.clone());
        if let Some(shown) = shown.filter(|_| same_origin(url, &self.url)) {
            request.headers_mut().insert(AUTHORIZATION, shown.clone());
        }
        if let Some(accept) = self.accept {
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        }
        let (media_type, length) = match &self.payload {
            Payload::None if self.method == Method::POST => (None, Some(0)),
            Payload::None => (None, None),
            Payload::Bytes { media_type, bytes } => {
                *request.body_mut() = Some(bytes.clone().into());
                (Some(media_type.as_str()), None)
            }
            Payload::File { path, size } => {
                let failed = |error| Failure::File { action: "read", path: path.clone(), error };
                *request.body_mut() = Some(Body::from(tokio::fs::File::open(path).await.map_err(failed)?));
                (Some("application/octet-stream"), Some(*size))
            }
        };
        if let Some(media_type) = media_type.and_then(|text| HeaderValue::from_str(text).ok()) {
            request.headers_mut().insert(CONTENT_TYPE, media_type);
        }
        if let Some(length) = length {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        Ok(request)
    }
}

/// What asks. Nothing is followed and nothing repeated but here and in [`super::registry`].
///
/// Once a public server has answered, everything that it leads to must be public too: it has no
/// business in this machine's own network.
pub(super) struct Asking {
    /// For the server that the user named.
    first: Client,
    /// For servers that a public one redirects to; built on first use.
    further: OnceLock<Client>,
}

impl Asking {
    pub(super) fn new(secure: bool) -> Result<Self, Failure> {
        Ok(Self { first: client(secure, false)?, further: OnceLock::new() })
    }

    fn further(&self) -> Result<Client, Failure> {
        if let Some(client) = self.further.get() {
            return Ok(client.clone());
        }
        let client = client(true, true)?;
        Ok(self.further.get_or_init(|| client).clone())
    }
}

fn client(secure: bool, public_only: bool) -> Result<Client, Failure> {
    let config = tls(secure).map_err(|error| Failure::Tls(error.to_string()))?;
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .tls_backend_preconfigured(config)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .dns_resolver(Names { public_only })
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE);
    // This machine is not behind a proxy.
    if !secure {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| Failure::Tls(chain(&error)))
}

/// Sends a request, with the credential `shown` only to the server it is for, and follows redirects of requests that
/// change nothing. Returns within `within`, without the body.
pub(super) async fn exchange(
    asking: &Asking,
    ask: &Ask,
    shown: Option<&HeaderValue>,
    within: Duration,
) -> Result<Response, Failure> {
    let late = |_| Failure::TimedOut(within);
    tokio::time::timeout(within, Box::pin(follow(asking, ask, shown))).await.map_err(late)?
}

async fn follow(asking: &Asking, ask: &Ask, shown: Option<&HeaderValue>) -> Result<Response, Failure> {
    let mut url = ask.url.clone();
    let mut client = if ask.from_public { asking.further()? } else { asking.first.clone() };
    for _ in 0..=MAX_REDIRECTS {
        let request = ask.request(&url, shown).await?;
        let response = client.execute(request).await.map_err(|error| unanswered(&error))?;
        let Some(target) = target(&response)? else { return Ok(response) };
        check_redirect(ask, &target)?;
        if is_public(&response) || target.scheme() != url.scheme() {
            client = asking.further()?;
        }
        url = target;
    }
    Err(Failure::Redirect { target: without_query(&url), why: "that is one redirect too many" })
}

/// Whether the server that answered has a public address; unknown, and so false, behind a proxy.
pub(super) fn is_public(response: &Response) -> bool {
    response.remote_addr().is_some_and(|address| local(address.ip()).is_none())
}

/// Where a response redirects to.
fn target(response: &Response) -> Result<Option<Url>, Failure> {
    let status = response.status().as_u16();
    let Some(location) = response.headers().get(LOCATION).filter(|_| (300..400).contains(&status)) else {
        return Ok(None);
    };
    let target = location.to_str().ok().and_then(|text| response.url().join(text).ok());
    let target = target.ok_or_else(|| Failure::Redirect {
        target: excerpt(&String::from_utf8_lossy(location.as_bytes())),
        why: "that is not an address",
    })?;
    Ok(Some(target))
}

fn check_redirect(ask: &Ask, target: &Url) -> Result<(), Failure> {
    let refuse = |why| Err(Failure::Redirect { target: without_query(target), why });
    if !matches!(ask.method, Method::GET | Method::HEAD) {
        return refuse("what changes something is sent to the registry itself or not at all");
    }
    if !target.username().is_empty() || target.password().is_some() {
        return refuse("the address holds a user name or a password");
    }
    if leads_to_private_address(&ask.url, target) {
        return refuse("what comes over TLS from elsewhere is not fetched from this machine or in the clear");
    }
    Ok(())
}

/// Whether `target` is this machine, or spoken to in the clear, while `from` is not.
pub(super) fn leads_to_private_address(from: &Url, target: &Url) -> bool {
    let is_local = |url: &Url| url.host_str().is_some_and(is_loopback);
    let allowed = match target.scheme() {
        "https" => !is_local(target) || is_local(from),
        "http" => is_local(target) && is_local(from),
        _ => false,
    };
    !allowed
}

/// Whether what may be shown to one may be shown to the other.
pub(super) fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host_str() == other.host_str()
        && one.port_or_known_default() == other.port_or_known_default()
}

/// An address for people: what stands behind `?` is often a signature that opens a door.
pub(super) fn without_query(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Neither can fail for an address with a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    excerpt(url.as_str())
}

/// The whole body, of at most `limit` bytes, within `within`.
pub(super) async fn read(
    response: Response,
    what: &'static str,
    limit: u64,
    within: Duration,
) -> Result<Vec<u8>, Failure> {
    let reading = read_up_to(response, usize::try_from(limit).unwrap_or(usize::MAX));
    let late = |_| Failure::TimedOut(within);
    match tokio::time::timeout(within, reading).await.map_err(late)?? {
        (body, true) => Ok(body),
        (_, false) => Err(Failure::TooLarge { what, limit }),
    }
}

/// The body up to `limit` bytes, and whether that was all of it.
async fn read_up_to(mut response: Response, limit: usize) -> Result<(Vec<u8>, bool), Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| broken(&error))? {
        let room = limit - body.len();
        body.extend(chunk.iter().take(room));
        if chunk.len() > room {
            return Ok((body, false));
        }
    }
    Ok((body, true))
}

/// What the body of an error says: `: ` and the registry's own words, or nothing.
pub(super) async fn explained(response: Response) -> String {
    let reading = tokio::time::timeout(SILENCE, read_up_to(response, MAX_ERROR_BODY));
    let body = reading.await.ok().and_then(Result::ok).map(|(body, _)| body).unwrap_or_default();
    let parsed: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |path: &str| parsed.pointer(path).and_then(serde_json::Value::as_str);
    let message = ["/errors/0/message", "/errors/0/code", "/message", "/error", "/details"];
    match message.iter().find_map(|path| text(path)).map(excerpt) {
        Some(message) if !message.is_empty() => format!(": {message}"),
        _ => String::new(),
    }
}

/// There was no answer.
fn unanswered(error: &reqwest::Error) -> Failure {
    if error.is_timeout() && !error.is_connect() {
        return Failure::TimedOut(SILENCE);
    }
    let text = excerpt(&chain(error));
    // The client hands on what `rustls` says as text only.
    if text.contains("invalid peer certificate") { Failure::Untrusted(text) } else { Failure::Connect(text) }
}

/// The answer broke off.
pub(super) fn broken(error: &reqwest::Error) -> Failure {
    if error.is_timeout() { Failure::TimedOut(SILENCE) } else { Failure::Interrupted(excerpt(&chain(error))) }
}
