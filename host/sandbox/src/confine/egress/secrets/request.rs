//! The head and body of a request as the host of a secret gets them.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{
    ACCEPT_ENCODING, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, Scheme};
use hyper::{Request, Uri, Version};

use haft_core::encoding::strictly_decoded;
use haft_core::grant::Destination;

/// Headers by which some servers take a request for one of another method or path. Some read every character that is not a
/// letter or a digit as `-` (CGI, WSGI).
const OVERRIDES: &[&str] =
    &["x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url"];
/// The parameter of the query by which some servers take a request for one of another method.
const METHOD_PARAMETER: &str = "_method";

/// Returns whether some servers may take a request for one of another method or path.
pub(super) fn names_another(request: &Request<Incoming>) -> bool {
    let is_override = |name: &HeaderName| {
        let name: String =
            name.as_str().chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect();
        OVERRIDES.contains(&name.as_str())
    };
    let query = request.uri().query().unwrap_or_default();
    let mut parameters = query.split(['&', ';']).filter_map(|parameter| parameter.split('=').next());
    // A name that cannot be decoded may be read in any way.
    let is_method =
        |name: &str| strictly_decoded(name).is_none_or(|name| name.eq_ignore_ascii_case(METHOD_PARAMETER));
    request.headers().keys().any(is_override) || parameters.any(is_method)
}

/// Directs a request to `destination`, without the headers of the child's connection, and for an answer that is not
/// compressed.
///
/// # Errors
/// The URL is not valid at the destination.
pub(super) fn direct(parts: &mut Parts, destination: &Destination) -> Result<(), hyper::http::Error> {
    let mut uri = parts.uri.clone().into_parts();
    uri.scheme = Some(Scheme::try_from(destination.scheme().name())?);
    uri.authority = Some(Authority::try_from(destination.authority())?);
    parts.uri = Uri::from_parts(uri)?;
    let asks_trailers = parts.version == Version::HTTP_2 && parts.headers.contains_key(TE);
    parts.version = Version::HTTP_11;
    remove_hop_headers(&mut parts.headers);
    if asks_trailers {
        parts.headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if parts.headers.contains_key(HOST) {
        parts.headers.insert(HOST, HeaderValue::try_from(destination.authority())?);
    }
    parts.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(())
}

/// Removes the headers of one connection (RFC 9110, section 7.6.1). hyper writes its own.
pub(super) fn remove_hop_headers(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> = named
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| name != HOST)
        .collect();
    let known = [CONNECTION, TE, TRANSFER_ENCODING, UPGRADE];
    let others = ["keep-alive", "proxy-connection"].map(HeaderName::from_static);
    for name in named.into_iter().chain(known).chain(others) {
        headers.remove(name);
    }
}

/// A body whose trailers are dropped: some servers take them for headers.
pub(super) struct WithoutTrailers(pub(super) Incoming);

impl Body for WithoutTrailers {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.0).poll_frame(context).map(|frame| frame.filter(|frame| !is_trailers(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

fn is_trailers(frame: &Result<Frame<Bytes>, hyper::Error>) -> bool {
    frame.as_ref().is_ok_and(Frame::is_trailers)
}
