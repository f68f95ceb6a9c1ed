//! Sends one request and reads its response. Follows a limited number of redirects, never with the registry's
//! credentials, and refuses responses over the size limit.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{Body, Client, Method, Request, Response, Url};

use super::error::{Failure, excerpt};
use crate::download::{IDLE, client, display_url, is_public, is_this_machine, read_up_to};
use crate::listing::io_error;
use haft_core::net::chain;

/// Limit on the redirects of one request: a registry, its storage, and the storage's mirror.
const MAX_REDIRECTS: usize = 5;
/// Maximum number of bytes of an error response that are read: its message is at the start.
const MAX_ERROR_BODY: usize = 16 << 10;

#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) accept: Option<&'static str>,
    pub(super) payload: Payload,
    /// Whether a public server named the URL.
    pub(super) from_public: bool,
}

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
                let file = tokio::fs::File::open(path).await.map_err(io_error("read", path))?;
                *request.body_mut() = Some(Body::from(file));
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

/// The HTTP clients. Redirects are followed only here, and requests are repeated only in [`super::registry`].
///
/// Once a public server has responded, every server that it redirects to must be public too: it must not reach
/// this machine's network.
pub(super) struct Asking {
    /// The client for the server that the user named.
    first: Client,
    /// The client for servers that a public server redirects to; built on first use.
    further: OnceLock<Client>,
}

impl Asking {
    pub(super) fn new(secure: bool) -> Result<Self, Failure> {
        Ok(Self { first: client(secure, !secure, false).map_err(Failure::Tls)?, further: OnceLock::new() })
    }

    fn further(&self) -> Result<Client, Failure> {
        if let Some(client) = self.further.get() {
            return Ok(client.clone());
        }
        let client = client(true, false, true).map_err(Failure::Tls)?;
        Ok(self.further.get_or_init(|| client).clone())
    }
}

/// Sends a request, with the credential `shown` only to its own server, and follows the redirects of GET and
/// HEAD requests. Returns the response without its body within `within`.
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
    Err(Failure::Redirect { target: without_query(&url), why: "too many redirects" })
}

fn target(response: &Response) -> Result<Option<Url>, Failure> {
    let status = response.status().as_u16();
    let Some(location) = response.headers().get(LOCATION).filter(|_| (300..400).contains(&status)) else {
        return Ok(None);
    };
    let target = location.to_str().ok().and_then(|text| response.url().join(text).ok());
    let target = target.ok_or_else(|| Failure::Redirect {
        target: excerpt(&String::from_utf8_lossy(location.as_bytes())),
        why: "not a valid URL",
    })?;
    Ok(Some(target))
}

fn check_redirect(ask: &Ask, target: &Url) -> Result<(), Failure> {
    let refuse = |why| Err(Failure::Redirect { target: without_query(target), why });
    if !matches!(ask.method, Method::GET | Method::HEAD) {
        return refuse("requests that change the registry follow no redirects");
    }
    if !target.username().is_empty() || target.password().is_some() {
        return refuse("the address holds a user name or a password");
    }
    if leads_to_private_address(&ask.url, target) {
        return refuse("a redirect from TLS to this machine or to an unencrypted URL is refused");
    }
    Ok(())
}

/// Reports whether `target` is on this machine or without TLS, while `from` is not.
pub(super) fn leads_to_private_address(from: &Url, target: &Url) -> bool {
    let allowed = match target.scheme() {
        "https" => !is_this_machine(target) || is_this_machine(from),
        "http" => is_this_machine(target) && is_this_machine(from),
        _ => false,
    };
    !allowed
}

/// Reports whether two URLs have the same origin, and so may receive the same credential.
pub(super) fn same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// Renders a URL for messages: a query often contains a signature that grants access.
pub(super) fn without_query(url: &Url) -> String {
    excerpt(&display_url(url))
}

/// Reads the complete body, of at most `limit` bytes, within `within`.
pub(super) async fn read(
    response: Response,
    what: &'static str,
    limit: u64,
    within: Duration,
) -> Result<Vec<u8>, Failure> {
    let reading = read_up_to(response, usize::try_from(limit).unwrap_or(usize::MAX));
    let late = |_| Failure::TimedOut(within);
    match tokio::time::timeout(within, reading).await.map_err(late)?.map_err(|error| broken(&error))? {
        (body, true) => Ok(body),
        (_, false) => Err(Failure::TooLarge { what, limit }),
    }
}

/// Returns the message of an error response: `: ` and the registry's text, or nothing.
pub(super) async fn explained(response: Response) -> String {
    let reading = tokio::time::timeout(IDLE, read_up_to(response, MAX_ERROR_BODY));
    let body = reading.await.ok().and_then(Result::ok).map(|(body, _)| body).unwrap_or_default();
    let parsed: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |path: &str| parsed.pointer(path).and_then(serde_json::Value::as_str);
    let message = ["/errors/0/message", "/errors/0/code", "/message", "/error", "/details"];
    match message.iter().find_map(|path| text(path)).map(excerpt) {
        Some(message) if !message.is_empty() => format!(": {message}"),
        _ => String::new(),
    }
}

/// Converts the error of a request without a response.
fn unanswered(error: &reqwest::Error) -> Failure {
    if error.is_timeout() && !error.is_connect() {
        return Failure::TimedOut(IDLE);
    }
    let text = excerpt(&chain(error));
    // The client passes the error of `rustls` on as text only.
    if text.contains("invalid peer certificate") { Failure::Untrusted(text) } else { Failure::Connect(text) }
}

pub(super) fn broken(error: &reqwest::Error) -> Failure {
    if error.is_timeout() { Failure::TimedOut(IDLE) } else { Failure::Interrupted(excerpt(&chain(error))) }
}
