//! Sends what the exporters have, with the HTTP client and the certificates that haft has anyway, on haft's runtime: the
//! exporters run on threads of their own, which have none.

use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use haft_core::net::{chain, is_loopback, tls};
use opentelemetry_http::{HttpClient, HttpError, Request, Response, ResponseBodyTooLarge};
use reqwest::Client;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use secrecy::{ExposeSecret, SecretString};
use tokio::runtime::Handle;

/// How long one request may take: what the specification of OTLP names as the default.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of an answer: it is a few, or says what was not taken.
const MAX_ANSWER: usize = 256 << 10;

/// Sends requests.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    client: Client,
    /// For receivers on this machine, which no proxy is asked about.
    local: Client,
    runtime: Handle,
}

impl Sender {
    /// One that sends `headers` with everything. Must be made inside a runtime.
    pub(crate) fn new(headers: &[(String, SecretString)]) -> Result<Self, String> {
        let tls = tls(true).or_else(|_| tls(false)).map_err(|error| error.to_string())?;
        let headers = header_map(headers)?;
        let builder = || {
            Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .redirect(Policy::none())
                .default_headers(headers.clone())
                .timeout(PATIENCE)
        };
        let client = builder().build().map_err(|error| chain(&error))?;
        let local = builder().no_proxy().build().map_err(|error| chain(&error))?;
        Ok(Self { client, local, runtime: Handle::current() })
    }

    fn client(&self, request: &Request<Bytes>) -> &Client {
        if request.uri().host().is_some_and(is_loopback) { &self.local } else { &self.client }
    }
}

fn header_map(headers: &[(String, SecretString)]) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let wrong = || format!("header `{name}` of `[telemetry]` cannot be sent");
        let header = HeaderName::try_from(name).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        map.insert(header, value);
    }
    Ok(map)
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client(&request).clone();
        self.runtime.spawn(async move { send(&client, request).await }).await?
    }
}

async fn send(client: &Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let request = reqwest::Request::try_from(request)?;
    // Neither the address nor a header is in an error: `chain` has the causes alone.
    let mut answer = client.execute(request).await.map_err(|error| HttpError::from(chain(&error)))?;
    let mut response = Response::builder().status(answer.status());
    if let Some(headers) = response.headers_mut() {
        headers.clone_from(answer.headers());
    }
    let mut body = BytesMut::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| HttpError::from(chain(&error)))? {
        if body.len() + piece.len() > MAX_ANSWER {
            return Err(Box::new(ResponseBodyTooLarge::new()));
        }
        body.extend_from_slice(&piece);
    }
    Ok(response.body(body.freeze())?)
}
