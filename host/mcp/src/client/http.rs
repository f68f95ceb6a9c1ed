//! The streamable HTTP transport to a server. Redirects are followed within one origin only, because the headers,
//! which may contain a token, are sent to the target of a redirect.

mod post;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::{Action, Attempt, Policy};
use reqwest::{Client, StatusCode};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use secrecy::{ExposeSecret, SecretString};

use self::post::{HttpClient, HttpFailure};
use super::ServerError;
use super::address::{USER_AGENT, is_this_machine, parse_url};
use super::bounded::Bounded;
use super::calls::shortened;
use super::handler::ServerNews;
use super::oauth::Account;
use haft_core::net::chain;

/// Time limit for a connection to a server.
const CONNECT: Duration = Duration::from_secs(10);
/// Maximum number of reconnections of the stream of one answer.
const RECONNECTS: usize = 5;
/// The most time between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Pause before the first reconnection.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 5;
/// Maximum wait for the beginning of a stream, which reveals the transport of 2024-11-05.
const BEGINNING: Duration = Duration::from_secs(3);
/// Maximum number of bytes of the beginning of a stream.
const MAX_BEGINNING: usize = 4096;

type Http = StreamableHttpClientTransport<HttpClient>;

/// Returns a transport to `url` that sends `headers` with everything, and the token of `account`. Sends nothing
/// yet. Must be made inside a runtime.
pub(super) fn transport(
    url: &str,
    headers: &[(String, SecretString)],
    account: Option<&Arc<Account>>,
    news: &Arc<ServerNews>,
) -> Result<Bounded<Http>, ServerError> {
    let client = client(url, headers)?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(parse_url(url)?.as_str());
    let mut pauses = ExponentialBackoff::default();
    (pauses.max_times, pauses.base_duration, pauses.max_delay) =
        (Some(RECONNECTS), FIRST_PAUSE, Some(MAX_PAUSE));
    config.retry_config = Arc::new(pauses);
    // rmcp would repeat the call in the new session before the tools are listed and compared with the agreed ones.
    config.reinit_on_expired_session = false;
    let http = HttpClient { client, news: news.clone(), account: account.cloned(), last: Arc::default() };
    Ok(Bounded::new(Http::with_client(http, config)))
}

fn client(url: &str, headers: &[(String, SecretString)]) -> Result<Client, ServerError> {
    let url = parse_url(url)?;
    let failed = |error: String| ServerError::Start(error);
    let is_local = is_this_machine(&url);
    let mut builder = haft_core::net::client(url.scheme() == "https", is_local)
        .map_err(|error| failed(error.to_string()))?
        .user_agent(USER_AGENT)
        .redirect(Policy::custom(redirected))
        .default_headers(header_map(headers)?)
        .connect_timeout(CONNECT);
    if is_local {
        // Every request opens a new connection: that is cheap on loopback, and an answer whose end was not read would
        // block the next request on its connection.
        builder = builder.pool_max_idle_per_host(0);
    }
    builder.build().map_err(|error| failed(chain(&error)))
}

/// Follows a redirect that stays at the server and repeats the request; others would lose the request's body, or
/// send the headers, which may hold a token, elsewhere.
fn redirected(attempt: Attempt<'_>) -> Action {
    let (mut target, status) = (attempt.url().clone(), attempt.status());
    let is_same = attempt.previous().last().is_some_and(|from| from.origin() == target.origin());
    let repeats = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    if is_same && repeats && attempt.previous().len() <= MAX_REDIRECTS {
        return attempt.follow();
    }
    // The query may hold a secret, and is not a part of the address.
    target.set_query(None);
    target.set_fragment(None);
    // An address without a host has no user, and cannot be redirected to.
    let _ = target.set_username("").and_then(|()| target.set_password(None));
    attempt.error(format!(
        "it redirects to `{target}` ({}), and haft follows no redirects here; if that is the server, write \
         this URL in program.toml",
        status.as_u16()
    ))
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

/// Returns whether a server supports the transport of 2024-11-05: it answers GET with a stream whose first event
/// names another URL.
pub(super) async fn is_of_2024(url: &str, headers: &[(String, SecretString)]) -> bool {
    let Ok(client) = client(url, headers) else { return false };
    let asked = async {
        let mut response = client.get(url).header(ACCEPT, "text/event-stream").send().await.ok()?;
        let mut beginning = Vec::new();
        while beginning.len() < MAX_BEGINNING
            && let Some(chunk) = response.chunk().await.ok()?
        {
            beginning.extend_from_slice(&chunk);
            if String::from_utf8_lossy(&beginning).contains("event: endpoint") {
                return Some(());
            }
        }
        None
    };
    tokio::time::timeout(BEGINNING, asked).await.is_ok_and(|asked| asked.is_some())
}

pub(super) fn from_transport_error(error: &(dyn Error + 'static)) -> ServerError {
    let mut cause = Some(error);
    while let Some(found) = cause {
        if let Some(found) = found.downcast_ref::<StreamableHttpError<HttpFailure>>() {
            return from_http_error(found);
        }
        cause = found.source();
    }
    ServerError::Lost(shortened(error.to_string()))
}

fn from_http_error(error: &StreamableHttpError<HttpFailure>) -> ServerError {
    match error {
        StreamableHttpError::Client(HttpFailure(error)) => error.clone(),
        StreamableHttpError::SessionExpired => ServerError::Forgotten,
        StreamableHttpError::Deserialize(_) => {
            ServerError::Protocol("it sent no message of JSON-RPC 2.0".to_owned())
        }
        StreamableHttpError::UnexpectedEndOfStream => {
            ServerError::Lost("its answer is incomplete".to_owned())
        }
        error => ServerError::Protocol(shortened(error.to_string())),
    }
}
