//! The streamable HTTP transport to a server. Plain HTTP is refused but to this machine, and redirects are not
//! followed: the headers, which may hold a token, would go wherever they lead.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Url};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use secrecy::{ExposeSecret, SecretString};

use super::ServerError;
use super::calls::shortened;
use haft_core::net::chain;

/// How long it may take to reach a server.
const CONNECT: Duration = Duration::from_secs(10);
/// How often a stream that broke off is taken up again.
const RECONNECTS: usize = 5;
/// The most time between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The pause before the first of them, where the server names none.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Names haft to the server.
const USER_AGENT: &str = concat!("haft/", env!("CARGO_PKG_VERSION"));

/// The transport.
pub(super) type Http = StreamableHttpClientTransport<Client>;

/// Parses and checks a server's URL.
///
/// # Errors
/// It is malformed, or plain HTTP to another machine.
pub(super) fn parse_url(url: &str) -> Result<Url, ServerError> {
    let parsed = Url::parse(url).map_err(|error| ServerError::Url(format!("`{url}` is no URL: {error}")))?;
    let is_safe = parsed.scheme() == "https" || (parsed.scheme() == "http" && is_this_machine(&parsed));
    if is_safe {
        return Ok(parsed);
    }
    let why = "expected `https://`; plain `http://` is for servers on this machine";
    Err(ServerError::Url(format!("`{url}` would show what is sent to everybody on the way: {why}")))
}

fn is_this_machine(url: &Url) -> bool {
    url.host_str().is_some_and(haft_core::net::is_loopback)
}

/// A transport to `url` that sends `headers` with everything. Sends nothing yet. Must be made inside
/// a runtime.
pub(super) fn transport(url: &str, headers: &[(String, SecretString)]) -> Result<Http, ServerError> {
    let url = parse_url(url)?;
    let failed = |error: String| ServerError::Start(error);
    let tls = haft_core::net::tls(url.scheme() == "https").map_err(|error| failed(error.to_string()))?;
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .tls_backend_preconfigured(tls)
        .redirect(Policy::custom(refuse_redirect))
        .retry(reqwest::retry::never())
        .default_headers(header_map(headers)?)
        .connect_timeout(CONNECT);
    if is_this_machine(&url) {
        // Proxies of the environment serve for the world outside. A connection is made anew for
        // every request: that costs nothing here, and an answer whose end was not read holds up
        // whatever comes next on its connection.
        builder = builder.no_proxy().pool_max_idle_per_host(0);
    }
    let client = builder.build().map_err(|error| failed(chain(&error)))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    let mut pauses = ExponentialBackoff::default();
    (pauses.max_times, pauses.base_duration, pauses.max_delay) =
        (Some(RECONNECTS), FIRST_PAUSE, Some(MAX_PAUSE));
    config.retry_config = Arc::new(pauses);
    Ok(Http::with_client(client, config))
}

fn refuse_redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let target = attempt.url().origin().ascii_serialization();
    attempt.error(format!("it redirects to `{target}`, which haft does not follow"))
}

fn header_map(headers: &[(String, SecretString)]) -> Result<HeaderMap, ServerError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let wrong = |what: &str| ServerError::Secret(format!("header `{name}` cannot be sent: {what}"));
        let header = HeaderName::try_from(name).map_err(|_| wrong("its name is not one"))?;
        let mut value =
            HeaderValue::from_str(value.expose_secret()).map_err(|_| wrong("its value is not one"))?;
        value.set_sensitive(true);
        map.insert(header, value);
    }
    Ok(map)
}

/// The error for a failure of the transport.
pub(super) fn from_transport_error(error: &(dyn Error + 'static)) -> ServerError {
    let mut cause = Some(error);
    while let Some(found) = cause {
        if let Some(found) = found.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            return from_http_error(found);
        }
        cause = found.source();
    }
    ServerError::Lost(shortened(error.to_string()))
}

fn from_http_error(error: &StreamableHttpError<reqwest::Error>) -> ServerError {
    match error {
        StreamableHttpError::Client(error) if error.status().is_some() => {
            let status = error.status().map(|status| status.to_string()).unwrap_or_default();
            ServerError::Protocol(format!("it answered with {status}"))
        }
        StreamableHttpError::Client(error) if error.is_connect() || error.is_redirect() => {
            ServerError::Unreachable(shortened(chain(error)))
        }
        StreamableHttpError::Client(error) => ServerError::Lost(shortened(chain(error))),
        StreamableHttpError::AuthRequired(error) => {
            ServerError::Unauthorized(shortened(format!("401, {}", error.www_authenticate_header)))
        }
        StreamableHttpError::InsufficientScope(error) => {
            ServerError::Unauthorized(shortened(format!("403, {}", error.www_authenticate_header)))
        }
        StreamableHttpError::UnexpectedServerResponse(text)
            if text.starts_with("HTTP 401") || text.starts_with("HTTP 403") =>
        {
            ServerError::Unauthorized(shortened(text.trim_start_matches("HTTP ").to_owned()))
        }
        error => ServerError::Protocol(shortened(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cl04_plain_http_is_for_this_machine_only() {
        for url in
            ["https://mcp.test/mcp", "http://127.0.0.1:1/mcp", "http://[::1]/", "http://localhost:8080/x"]
        {
            assert!(parse_url(url).is_ok(), "{url}");
        }
        for url in
            ["http://mcp.test/mcp", "http://10.0.0.1/", "http://localhost.test/", "ftp://localhost/", "x"]
        {
            assert!(matches!(parse_url(url), Err(ServerError::Url(_))), "{url}");
        }
    }
}
