//! Sends the exporters' requests with haft's HTTP client and certificates, on haft's runtime: the exporters run on
//! threads without a runtime.

use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use haft_core::net::{chain, client, is_loopback};
use opentelemetry_http::{HttpClient, HttpError, Request, Response, ResponseBodyTooLarge};
use reqwest::Client;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use tokio::runtime::Handle;

/// The timeout of a request: the default in the OTLP specification.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum size of a response in bytes: it is short, or lists rejected data.
const MAX_ANSWER: usize = 256 << 10;

#[derive(Clone, Debug)]
pub(crate) struct Sender {
    client: Client,
    /// The client for receivers on this machine, without a proxy.
    local: Client,
    runtime: Handle,
}

impl Sender {
    /// Makes a sender that adds `headers` to every request. Must be called inside a runtime.
    pub(crate) fn new(headers: &[(String, SecretString)]) -> Result<Self, String> {
        let headers = header_map(headers)?;
        let made = |is_local| {
            let builder = client(true, is_local).or_else(|_| client(false, is_local));
            let builder = builder.map_err(|error| error.to_string())?;
            let builder = builder.default_headers(headers.clone()).timeout(PATIENCE);
            builder.build().map_err(|error| chain(&error))
        };
        let (client, local) = (made(false)?, made(true)?);
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
    // Errors contain neither the address nor a header: `chain` returns the causes alone.
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
