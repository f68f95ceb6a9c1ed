//! Follows redirects: each hop is a separate request, checked like the first. Keeps no state, and sends no secret
//! to another host.

use url::Url;

use super::body::Response;
use super::error::{Error, ErrorKind, shown};
use super::request::{Request, check_url};
use super::send;

/// Headers that say who asks; meant for one host alone.
const PERSONAL: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// Headers about a body, which goes with it.
const OF_THE_BODY: [&str; 4] = ["content-encoding", "content-language", "content-type", "content-location"];

/// Sends a request and what it is redirected to, at most `most` times. All hops together have the
/// time of the request. [`Response::url`] says where it ended.
pub fn follow(request: Request, most: usize) -> Result<Response, Error> {
    follow_with(request, most, send)
}

pub(super) fn follow_with(
    mut request: Request,
    most: usize,
    mut send: impl FnMut(&Request) -> Result<Response, Error>,
) -> Result<Response, Error> {
    request.deadline = Some(request.deadline());
    for hop in 0..=most {
        let named = |error: Error| match hop {
            0 => error,
            _ => error.of_redirect(request.url.as_str()),
        };
        let response = send(&request).map_err(named)?;
        match target(&request, &response)? {
            Some(url) => request = redirected(request, &response, url),
            None => return Ok(response.after_redirects(hop)),
        }
    }
    let url = shown(request.url.as_str());
    Err(Error::new(
        ErrorKind::Redirects,
        format!("more than {most} redirects; the next one leads to `{url}`"),
    ))
}

/// Where an answer leads to, if it is a redirect.
fn target(request: &Request, response: &Response) -> Result<Option<Url>, Error> {
    let Some(location) = response.header("location").filter(|_| is_redirect(response.status())) else {
        return Ok(None);
    };
    let invalid = |error: url::ParseError| {
        let location = shown(&location);
        Error::new(ErrorKind::Invalid, format!("redirected to `{location}`, which is not a URL: {error}"))
    };
    let mut url = request.url.join(location.trim()).map_err(invalid)?;
    if url.fragment().is_none() {
        url.set_fragment(request.url.fragment());
    }
    let shown = url.to_string();
    check_url(url).map(Some).map_err(|error| error.of_redirect(&shown))
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// The request that follows. 303 asks for something else; to 301 and 302 everybody answers a POST
/// with a GET.
fn redirected(mut request: Request, response: &Response, url: Url) -> Request {
    let becomes_get = match response.status() {
        303 => !matches!(request.method.as_str(), "GET" | "HEAD"),
        301 | 302 => request.method == "POST",
        _ => false,
    };
    let is_named = |names: &[&str], name: &str| names.iter().any(|own| name.eq_ignore_ascii_case(own));
    if becomes_get {
        request.method = "GET".into();
        request.body = Vec::new();
        request.headers.retain(|(name, _)| !is_named(&OF_THE_BODY, name));
    }
    if request.url.origin() != url.origin() {
        request.headers.retain(|(name, _)| !is_named(&PERSONAL, name));
    }
    request.url = url;
    request
}
