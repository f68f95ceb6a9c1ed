//! Checks the `Host`, `Origin` and `Sec-Fetch` headers before anything else of a request. A foreign web page
//! can send requests to this machine, also under its own name that resolves to it (DNS rebinding). The pages of
//! other programs on this machine are foreign too: only the names and the origin of the dashboard are accepted.

use hyper::header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Method, StatusCode};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Returns the status and the reason for rejecting a request. `hosts`: the names of the page, with its port.
/// `is_entry`: the request is for a link, which may be followed from anywhere.
pub(super) fn refusal(
    method: &Method,
    headers: &HeaderMap,
    hosts: &[String],
    is_entry: bool,
) -> Option<(StatusCode, &'static str)> {
    let Some(host) =
        only(headers, &HOST).filter(|host| hosts.iter().any(|known| known.eq_ignore_ascii_case(host)))
    else {
        return Some((
            StatusCode::FORBIDDEN,
            "the dashboard has another address: open the link that haft printed",
        ));
    };
    if !is_own_origin(headers, host) || !is_own_fetch(headers, is_entry) {
        return Some((StatusCode::FORBIDDEN, "requests from other pages are not accepted"));
    }
    if *method == Method::GET {
        return None;
    }
    if *method != Method::POST {
        return Some((StatusCode::METHOD_NOT_ALLOWED, "expected GET or POST"));
    }
    let is_json = only(headers, &CONTENT_TYPE) == Some("application/json");
    if !headers.contains_key(ORIGIN) || !is_json {
        return Some((
            StatusCode::FORBIDDEN,
            "expected a request of the dashboard, with its `Origin` and JSON",
        ));
    }
    None
}

/// Returns the value of a header that occurs exactly once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    only.to_str().ok()
}

/// Returns whether `Origin` is missing, or names the dashboard.
fn is_own_origin(headers: &HeaderMap, host: &str) -> bool {
    !headers.contains_key(ORIGIN)
        || only(headers, &ORIGIN).and_then(|origin| origin.strip_prefix("http://")) == Some(host)
}

/// Returns whether the browser declares that this page, or a person, made the request.
fn is_own_fetch(headers: &HeaderMap, is_entry: bool) -> bool {
    if !headers.contains_key(&FETCH_SITE) {
        return true;
    }
    let is_followed = is_entry && only(headers, &FETCH_MODE) == Some("navigate");
    is_followed || matches!(only(headers, &FETCH_SITE), Some("same-origin" | "none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "127.1.2.3:80";

    fn taken(method: &Method, headers: &[(&'static str, &str)], is_entry: bool) -> bool {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(*name, value.parse().unwrap());
        }
        refusal(method, &all, &[OWN.to_owned()], is_entry).is_none()
    }

    #[test]
    fn only_the_page_s_own_name_is_served() {
        assert!(taken(&Method::GET, &[("host", OWN)], false));
        for foreign in ["127.1.2.3", "127.1.2.3:81", "localhost:80", "evil.test:80", "127.1.2.3:80.evil.test"]
        {
            assert!(!taken(&Method::GET, &[("host", foreign)], false), "{foreign}");
        }
        assert!(
            !taken(&Method::GET, &[], false) && !taken(&Method::GET, &[("host", OWN), ("host", OWN)], false)
        );
    }

    #[test]
    fn only_the_page_itself_asks() {
        let host = ("host", OWN);
        assert!(taken(&Method::GET, &[host, ("origin", "http://127.1.2.3:80")], false));
        for foreign in
            ["http://127.0.0.1:80", "http://127.1.2.3:81", "https://127.1.2.3:80", "null", "http://evil.test"]
        {
            assert!(!taken(&Method::GET, &[host, ("origin", foreign)], false), "{foreign}");
        }
        for (site, is_taken) in
            [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)]
        {
            assert_eq!(taken(&Method::GET, &[host, ("sec-fetch-site", site)], false), is_taken, "{site}");
        }
        let followed = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert!(taken(&Method::GET, &followed, true) && !taken(&Method::GET, &followed, false));
    }

    #[test]
    fn an_answer_comes_from_the_page_as_json() {
        let (host, origin) = (("host", OWN), ("origin", "http://127.1.2.3:80"));
        let json = ("content-type", "application/json");
        assert!(taken(&Method::POST, &[host, origin, json], false));
        assert!(!taken(&Method::POST, &[host, json], false));
        assert!(!taken(&Method::POST, &[host, origin, ("content-type", "text/plain")], false));
        assert!(!taken(&Method::PUT, &[host, origin, json], false));
    }
}
