//! Prepares requests: the HTTP client, TLS, headers, base URL. Sends nothing.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use secrecy::ExposeSecret;

use super::super::dialect::Dialect;
use super::super::error::SettingsError;
use super::super::{ProviderSettings, Timeouts};
use haft_core::net::{chain, is_loopback};

/// 1 minute: some routers drop a connection that is idle longer, while a slow model computes.
const KEEPALIVE: Duration = Duration::from_mins(1);
const USER_AGENT: &str = concat!("haft/", env!("CARGO_PKG_VERSION"));
/// The `Accept` header: unstreamed responses and both streaming formats.
const ACCEPTED: &str = "application/json, text/event-stream, application/x-ndjson";

pub(super) fn parse_base(text: &str) -> Result<Url, SettingsError> {
    let wrong = |reason: &str| SettingsError::BaseUrl(reason.to_owned());
    let url = Url::parse(text.trim()).map_err(|error| wrong(&format!("is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(&format!("starts with `{}:`; expected `http://` or `https://`", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("has a user name or password; use `api_key` or `headers`"));
    }
    Ok(url)
}

/// Appends `path` to `base` and keeps its query (some gateways expect their version there).
pub(super) fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

pub(super) fn headers(
    dialect: &dyn Dialect,
    settings: &ProviderSettings,
) -> Result<HeaderMap, SettingsError> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static(ACCEPTED));
    for (name, value) in dialect.api().headers {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    if let Some(key) =
        settings.api_key.as_ref().map(|key| key.expose_secret().trim()).filter(|key| !key.is_empty())
    {
        let (name, before) = dialect.api().key;
        headers.insert(name, sensitive(&format!("{before}{key}")).ok_or(SettingsError::ApiKey)?);
    }
    for (name, value) in &settings.headers {
        let wrong = |reason| SettingsError::Header { name: name.clone(), reason };
        let header = HeaderName::try_from(name).map_err(|_| wrong("its name is not one"))?;
        headers
            .insert(header, sensitive(value.expose_secret()).ok_or_else(|| wrong("its value is not one"))?);
    }
    Ok(headers)
}

/// Returns a header value that the client hides in its own logs.
fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

pub(super) fn client(base: &Url, timeouts: Timeouts) -> Result<Client, SettingsError> {
    let failed = |error: rustls::Error| SettingsError::Tls(error.to_string());
    // `Retry` alone decides on retries.
    let builder = haft_core::net::client(base.scheme() == "https", base.host_str().is_some_and(is_loopback))
        .map_err(failed)?
        .user_agent(USER_AGENT)
        .connect_timeout(timeouts.connect)
        .timeout(timeouts.total)
        .tcp_keepalive(KEEPALIVE);
    builder.build().map_err(|error| SettingsError::Tls(chain(&error)))
}
