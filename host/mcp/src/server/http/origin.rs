//! Checks the `Origin` and `Host` headers. A web page can send requests to this machine, also under a host name of
//! its own that resolves to it (DNS rebinding); both are refused. Programs other than browsers can send any headers:
//! the token is the check for those.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HOST, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, StatusCode, Uri};

use haft_core::net::is_loopback;

/// How and why a request is turned away, if it is. `local` is where it arrived, `hosts` what else this
/// machine is called.
pub(super) fn refusal(
    headers: &HeaderMap,
    local: Option<SocketAddr>,
    hosts: &[String],
) -> Option<(StatusCode, &'static str)> {
    let Some(authority) = authority(headers) else {
        // RFC 9112, section 3.2.
        return Some((StatusCode::BAD_REQUEST, "expected one `Host`, a name or an address"));
    };
    if !is_own_host(authority.host(), local, hosts) {
        let why = "the `Host` of this request is not served here; `--allow-host` adds one";
        return Some((StatusCode::FORBIDDEN, why));
    }
    if !is_own_origin(headers) {
        let why = "requests of web pages are only taken from pages of this machine";
        return Some((StatusCode::FORBIDDEN, why));
    }
    None
}

/// The host of an address.
pub(super) fn host_of(url: &str) -> Option<String> {
    url.parse::<Uri>().ok()?.host().map(str::to_owned)
}

/// What the one `Host` says.
fn authority(headers: &HeaderMap) -> Option<Authority> {
    let mut all = headers.get_all(HOST).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    only.to_str().ok().and_then(|host| host.parse::<Authority>().ok())
}

fn is_own_host(host: &str, local: Option<SocketAddr>, hosts: &[String]) -> bool {
    let is_local = |local: SocketAddr| address(host) == Some(local.ip().to_canonical());
    is_loopback(host) || local.is_some_and(is_local) || hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
}

/// Whether there is no `Origin`, or one of this machine. `null` may be any page.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let mut all = headers.get_all(ORIGIN).iter();
    let (only, more) = (all.next(), all.next());
    let Some(only) = only else { return true };
    let origin = only.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    more.is_none()
        && origin.is_some_and(|origin| origin.scheme().is_some() && origin.host().is_some_and(is_loopback))
}

fn address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        origin.map(|origin| headers.insert(ORIGIN, origin.parse().unwrap()));
        let local = "192.0.2.7:8080".parse().ok();
        refusal(&headers, local, &["tools.test".to_owned()]).is_none()
    }

    #[test]
    fn only_own_names_are_served() {
        for own in
            ["localhost:8080", "LOCALHOST", "127.0.0.1:1", "[::1]:8080", "192.0.2.7:8080", "tools.test"]
        {
            assert!(taken(own, None), "{own}");
        }
        for foreign in
            ["evil.test:8080", "localhost.evil.test", "127.0.0.1.evil.test", "192.0.2.8", "0.0.0.0:8080"]
        {
            assert!(!taken(foreign, None), "{foreign}");
        }
        let without = refusal(&HeaderMap::new(), None, &[]).unwrap();
        assert_eq!(without.0, StatusCode::BAD_REQUEST, "no host at all");
    }

    #[test]
    fn only_own_pages_are_served() {
        for own in ["http://localhost:3000", "http://127.0.0.1", "https://[::1]:6274"] {
            assert!(taken("localhost", Some(own)), "{own}");
        }
        for foreign in [
            "https://evil.test",
            "http://localhost.evil.test",
            "null",
            "localhost",
            "file://",
            "http://a@localhost.evil",
        ] {
            assert!(!taken("localhost", Some(foreign)), "{foreign}");
        }
    }
}
