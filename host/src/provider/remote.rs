//! Talks to a provider over HTTP: the only home of the HTTP client. Knows no vendor's format
//! and never lets a key into an error, a log or a redirect.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, Response, Url};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use secrecy::ExposeSecret;
use serde_json::Value;

use super::error::{Failure, ProviderError, SettingsError, excerpt};
use super::retry::{Retry, retry_after};
use super::{Ask, Dialect, Provider, ProviderKind, ProviderSettings, Timeouts, Turn};
use crate::event::{Event, Events};
use crate::secret::Redactor;

/// 16 MiB: a turn of the longest output that any model has is a tenth of that.
const MAX_BODY: usize = 16 << 20;
/// 64 KiB of an error's body are read: its message is at the start.
const MAX_ERROR_BODY: usize = 64 << 10;
/// Without a sign of life for a minute a router forgets a connection on which a slow model thinks.
const KEEPALIVE: Duration = Duration::from_mins(1);
/// Names haft to the server.
const USER_AGENT: &str = concat!("haft/", env!("CARGO_PKG_VERSION"));

/// A provider behind HTTP that speaks `D`.
pub(super) struct Remote<D> {
    kind: &'static ProviderKind,
    dialect: D,
    client: Client,
    base: Url,
    headers: HeaderMap,
    /// The same values as in the headers, to keep them out of messages.
    redactor: Redactor,
    model: String,
    timeouts: Timeouts,
    retry: Retry,
    extra: serde_json::Map<String, Value>,
}

/// An attempt that failed, and how long the server wants to be left alone.
struct Miss {
    failure: Failure,
    retry_after: Option<Duration>,
}

impl From<Failure> for Miss {
    fn from(failure: Failure) -> Self {
        Self { failure, retry_after: None }
    }
}

impl<D: Dialect> Remote<D> {
    /// Checks the settings and prepares the client. Sends nothing.
    pub(super) fn new(
        kind: &'static ProviderKind,
        dialect: D,
        settings: ProviderSettings,
    ) -> Result<Self, SettingsError> {
        if settings.model.trim().is_empty() {
            return Err(SettingsError::NoModel);
        }
        if let Some(key) = settings.extra.keys().find(|key| dialect.reserved().contains(&key.as_str())) {
            return Err(SettingsError::Extra(key.clone()));
        }
        let base = parse_base(settings.base_url.as_deref().unwrap_or(kind.base_url))?;
        let client = client(&base, settings.timeouts)?;
        let headers = headers(&dialect, &settings)?;
        let redactor = Redactor::default();
        redactor.add(settings.api_key.iter().chain(settings.headers.iter().map(|(_, value)| value)));
        Ok(Self {
            kind,
            dialect,
            client,
            base,
            headers,
            redactor,
            model: settings.model,
            timeouts: settings.timeouts,
            retry: settings.retry,
            extra: settings.extra,
        })
    }

    /// Sends the request that `make` makes until it succeeds or is not worth another try.
    async fn send<T>(
        &self,
        request: Request,
        read: impl Fn(&[u8]) -> Result<T, Failure> + Sync,
    ) -> Result<T, ProviderError> {
        self.require_key()?;
        let mut attempts = 1;
        loop {
            // The body is in memory, so there is always a copy.
            let Some(request) = request.try_clone() else {
                return Err(self.error(Failure::Connect("the request cannot be repeated".into()), attempts));
            };
            let miss = match self.attempt(request).await.and_then(|body| Ok(read(&body)?)) {
                Ok(value) => return Ok(value),
                Err(miss) => miss,
            };
            let Some(delay) = self.retry.delay(attempts, &miss.failure, miss.retry_after) else {
                return Err(self.error(miss.failure, attempts));
            };
            tracing::info!("{}; trying again in {delay:.1?}", self.error(miss.failure, attempts));
            tokio::time::sleep(delay).await;
            attempts += 1;
        }
    }

    /// Sends a request once and reads the whole body of a successful answer.
    async fn attempt(&self, request: Request) -> Result<Vec<u8>, Miss> {
        let response = self.client.execute(request).await.map_err(|error| self.unanswered(&error))?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        if response.content_length().is_some_and(|length| length > MAX_BODY as u64) {
            return Err(Failure::TooLarge(MAX_BODY).into());
        }
        let (body, complete) = read(response, MAX_BODY).await.map_err(|error| self.broken(&error))?;
        if complete { Ok(body) } else { Err(Failure::TooLarge(MAX_BODY).into()) }
    }

    /// What a status that is not success says.
    async fn refused(&self, response: Response) -> Miss {
        let status = response.status().as_u16();
        let header = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let retry_after = header("retry-after").and_then(|value| retry_after(value, SystemTime::now()));
        // Following would hand the key and the conversation to whoever is named.
        let target =
            header("location").map(|target| format!("redirected to `{target}`, which haft does not follow"));
        let text = match target.filter(|_| (300..400).contains(&status)) {
            Some(text) => text,
            None => read(response, MAX_ERROR_BODY).await.map(|(body, _)| explain(&body)).unwrap_or_default(),
        };
        Miss { failure: Failure::Status { status, body: self.clean(&text) }, retry_after }
    }

    /// There was no answer.
    fn unanswered(&self, error: &reqwest::Error) -> Failure {
        // The limit for connecting reports itself as both; it is the other that means "too slow".
        if error.is_timeout() && !error.is_connect() {
            return Failure::TimedOut(self.timeouts.total);
        }
        let text = self.clean(&chain(error));
        // The client hands on what `rustls` says as text only.
        if text.contains("invalid peer certificate") {
            Failure::Untrusted(text)
        } else {
            Failure::Connect(text)
        }
    }

    /// The answer broke off.
    fn broken(&self, error: &reqwest::Error) -> Failure {
        if error.is_timeout() {
            return Failure::TimedOut(self.timeouts.total);
        }
        Failure::Interrupted(self.clean(&chain(error)))
    }

    fn require_key(&self) -> Result<(), ProviderError> {
        let vendor = Url::parse(self.kind.base_url).ok();
        let is_vendor = vendor.is_some_and(|vendor| vendor.host_str() == self.base.host_str());
        let (name, _) = self.dialect.key_header("");
        if is_vendor && !self.headers.contains_key(name) {
            return Err(self.error(Failure::MissingKey { variable: self.kind.key_variable }, 0));
        }
        Ok(())
    }

    fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Request {
        let mut request = Request::new(method, below(&self.base, path));
        *request.headers_mut() = self.headers.clone();
        if let Some(body) = body {
            *request.body_mut() = Some(body.to_string().into());
        }
        request
    }

    /// A foreign text without secrets, bounded: some servers repeat the key that they refuse.
    fn clean(&self, text: &str) -> String {
        excerpt(&self.redactor.redact(text))
    }

    fn error(&self, failure: Failure, attempts: u32) -> ProviderError {
        let mut endpoint = self.base.clone();
        endpoint.set_query(None);
        ProviderError { provider: self.kind.name, endpoint: endpoint.into(), attempts, failure }
    }
}

#[async_trait]
impl<D: Dialect> Provider for Remote<D> {
    fn name(&self) -> &str {
        self.kind.name
    }

    fn model(&self) -> &str {
        &self.model
    }

    async fn turn(&self, ask: &Ask<'_>, events: &Events) -> Result<Turn, ProviderError> {
        let mut body = self.dialect.request(ask);
        body.extend(self.extra.clone());
        let request = self.request(Method::POST, self.dialect.path(), Some(&Value::Object(body)));
        let turn = self.send(request, |body| self.decode(ask, body)).await?;
        if !turn.reply.text.is_empty() {
            events.emit(|| Event::Said(turn.reply.text.clone()));
        }
        Ok(turn)
    }

    async fn check(&self) -> Result<(), ProviderError> {
        let request = self.request(Method::GET, self.dialect.models_path(), None);
        match self.send(request, |_| Ok(())).await {
            // A server without a list of models is there all the same.
            Err(ProviderError { failure: Failure::Status { status: 404 | 405, .. }, .. }) => Ok(()),
            checked => checked,
        }
    }
}

impl<D: Dialect> Remote<D> {
    /// The dialect's reading, with no secret in what it complains of.
    fn decode(&self, ask: &Ask<'_>, body: &[u8]) -> Result<Turn, Failure> {
        self.dialect.decode(ask, body).or_else(|_| {
            // Complaints quote the beginning of something: what they leave of a key would no
            // longer be recognised, so they are made again about a body without keys.
            self.dialect.decode(ask, self.redactor.redact(&String::from_utf8_lossy(body)).as_bytes())
        })
    }
}

/// Reads a body up to `limit` bytes, and says whether that was all of it.
async fn read(mut response: Response, limit: usize) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = limit - body.len();
        body.extend(chunk.iter().take(room));
        if chunk.len() > room {
            return Ok((body, false));
        }
    }
    Ok((body, true))
}

/// What an error's body says: the message that vendors put in one of these places, with its
/// code, or else all of it.
fn explain(body: &[u8]) -> String {
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |path: &str| parsed.pointer(path).and_then(Value::as_str);
    let message = ["/error/message", "/error", "/message", "/detail"].iter().find_map(|path| text(path));
    match (message, text("/error/code").or_else(|| text("/error/type"))) {
        (Some(message), Some(code)) => format!("{message} ({code})"),
        (Some(message), None) => message.to_owned(),
        (None, _) if body.is_empty() => "(no body)".into(),
        (None, _) => String::from_utf8_lossy(body).into_owned(),
    }
}

/// The causes of an error. The client's own words say only that there was one, and carry the URL.
fn chain(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let texts: Vec<_> =
        causes.map(ToString::to_string).filter(|text| !text.starts_with("client error")).collect();
    if texts.is_empty() { "no answer".into() } else { texts.join(": ") }
}

fn parse_base(text: &str) -> Result<Url, SettingsError> {
    let wrong = |reason: &str| SettingsError::BaseUrl(reason.to_owned());
    let url = Url::parse(text.trim()).map_err(|error| wrong(&format!("is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(&format!("starts with `{}:`; expected `http://` or `https://`", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("holds a user name or password; use `api_key` or `headers`"));
    }
    Ok(url)
}

/// `path` below `base`, whose query stays (some gateways want their version there).
fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

fn headers<D: Dialect>(dialect: &D, settings: &ProviderSettings) -> Result<HeaderMap, SettingsError> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("application/json"));
    if let Some(key) =
        settings.api_key.as_ref().map(|key| key.expose_secret().trim()).filter(|key| !key.is_empty())
    {
        let (name, value) = dialect.key_header(key);
        headers.insert(name, sensitive(&value).ok_or(SettingsError::ApiKey)?);
    }
    for (name, value) in &settings.headers {
        let wrong = |reason| SettingsError::Header { name: name.clone(), reason };
        let header = HeaderName::try_from(name).map_err(|_| wrong("its name is not one"))?;
        headers
            .insert(header, sensitive(value.expose_secret()).ok_or_else(|| wrong("its value is not one"))?);
    }
    Ok(headers)
}

/// A header's value that the client keeps out of its own logs.
fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn client(base: &Url, timeouts: Timeouts) -> Result<Client, SettingsError> {
    let failed = |error: rustls::Error| SettingsError::Tls(error.to_string());
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .tls_backend_preconfigured(tls(base.scheme() == "https").map_err(failed)?)
        .redirect(reqwest::redirect::Policy::none())
        // `Retry` decides, in one place.
        .retry(reqwest::retry::never())
        .connect_timeout(timeouts.connect)
        .timeout(timeouts.total)
        .tcp_keepalive(KEEPALIVE);
    // Proxies of the environment serve for the world outside; this machine is not there.
    if is_loopback(base) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| SettingsError::Tls(chain(&error)))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// TLS with the system's certificates, or, where only plain HTTP is spoken, with none: a local
/// server must work on a machine that has none installed.
pub(crate) fn tls(secure: bool) -> Result<ClientConfig, rustls::Error> {
    // Handed over, not installed: a process-wide provider is the embedding program's to choose.
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions()?;
    let builder = if secure {
        builder.with_platform_verifier()?
    } else {
        builder.with_root_certificates(RootCertStore::empty())
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests;
