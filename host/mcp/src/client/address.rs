//! The URLs of servers and of their logins. Plain HTTP is accepted for loopback addresses only, because every
//! machine on the way could read the requests.

use reqwest::Url;

use super::ServerError;
use haft_core::net::is_loopback;

/// Names haft to the server.
pub(super) const USER_AGENT: &str = concat!("haft/", env!("CARGO_PKG_VERSION"));

/// Parses and checks a server's URL.
///
/// # Errors
/// The URL is malformed, or plain HTTP to another machine.
pub(super) fn parse_url(url: &str) -> Result<Url, ServerError> {
    let parsed =
        Url::parse(url).map_err(|error| ServerError::Url(format!("`{url}` is not a URL: {error}")))?;
    if is_safe(&parsed) {
        return Ok(parsed);
    }
    let why = "expected `https://`; plain `http://` is for servers on this machine";
    Err(ServerError::Url(format!("`{url}` would send data unencrypted: {why}")))
}

/// Returns whether requests to `url` cannot be read on the way.
pub(super) fn is_safe(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_this_machine(url))
}

pub(super) fn is_this_machine(url: &Url) -> bool {
    url.host_str().is_some_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CL04: `http://` is accepted for this machine alone.
    #[test]
    fn plain_http_is_for_this_machine_only() {
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
