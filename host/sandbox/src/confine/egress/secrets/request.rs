//! The head and body of a request as the host of a secret gets them.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::{Context, Poll};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, Scheme};
use hyper::{Request, Uri, Version};
use secrecy::ExposeSecret;

use super::Held;
use haft_core::encoding::percent_encoded;
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

// Placeholders are replaced by their secrets in the values of headers, in user names and passwords, and in the
// query. Not in the path or the body.

pub(super) type Used<'h> = BTreeSet<&'h str>;

/// A secret that cannot be sent where its placeholder is.
#[derive(Debug, thiserror::Error)]
#[error("the secret `{0}` cannot be sent there: it has characters that a head of HTTP cannot have")]
pub(super) struct Unsendable(String);

/// Replaces the placeholders of `held` in the head of a request. Returns the names of the secrets.
pub(super) fn swap<'h>(parts: &mut Parts, held: &[&'h Held]) -> Result<Used<'h>, Unsendable> {
    let mut used = Used::new();
    for (name, value) in &mut parts.headers {
        let Some(swapped) = in_header(name, value, held, &mut used) else { continue };
        *value = HeaderValue::from_maybe_shared(Bytes::from(swapped)).map_err(|_| unsendable(&used))?;
        value.set_sensitive(true);
    }
    let query = parts
        .uri
        .query()
        .and_then(|query| swapped(query, held, |secret| percent_encoded(secret, b""), &mut used));
    if let Some(query) = query {
        let mut uri = parts.uri.clone().into_parts();
        let target = format!("{}?{query}", parts.uri.path());
        uri.path_and_query = Some(target.parse().map_err(|_| unsendable(&used))?);
        parts.uri = Uri::from_parts(uri).map_err(|_| unsendable(&used))?;
    }
    Ok(used)
}

fn unsendable(used: &Used<'_>) -> Unsendable {
    Unsendable(used.iter().copied().collect::<Vec<_>>().join("`, `"))
}

fn in_header<'h>(
    name: &HeaderName,
    value: &HeaderValue,
    held: &[&'h Held],
    used: &mut Used<'h>,
) -> Option<String> {
    let text = std::str::from_utf8(value.as_bytes()).ok()?;
    if *name == AUTHORIZATION
        && let Some(login) = in_login(text, held, used)
    {
        return Some(login);
    }
    swapped(text, held, str::to_owned, used)
}

/// Returns the encoded login of the scheme `Basic` with secrets; `None` if it has no placeholder. A placeholder may also be
/// the whole encoded login, and looks like one.
fn in_login<'h>(text: &str, held: &[&'h Held], used: &mut Used<'h>) -> Option<String> {
    let (scheme, login) = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"))?;
    let login = BASE64_STANDARD.decode(login.trim()).ok()?;
    let login = swapped(std::str::from_utf8(&login).ok()?, held, str::to_owned, used)?;
    Some(format!("{scheme} {}", BASE64_STANDARD.encode(login)))
}

/// Returns `text` with secrets, each in the form `written`; `None` without a placeholder.
fn swapped<'h>(
    text: &str,
    held: &[&'h Held],
    written: impl Fn(&str) -> String,
    used: &mut Used<'h>,
) -> Option<String> {
    let found: Vec<&&'h Held> = held.iter().filter(|held| text.contains(&held.placeholder)).collect();
    let swap = |text: String, held: &&&'h Held| {
        used.insert(held.secret.name.as_str());
        text.replace(&held.placeholder, &written(held.secret.value.expose_secret()))
    };
    (!found.is_empty()).then(|| found.iter().fold(text.to_owned(), swap))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine::egress::secrets::placeholder;
    use haft_core::grant::HostSecret;

    fn swapped_authorization(held: &Held, value: &str) -> String {
        let request = Request::get("https://a.test/").header(AUTHORIZATION, value);
        let mut parts = request.body(()).unwrap().into_parts().0;
        let used = swap(&mut parts, &[held]).unwrap();
        assert_eq!(used.into_iter().collect::<Vec<_>>(), ["key"], "{value}");
        parts.headers[AUTHORIZATION].to_str().unwrap().to_owned()
    }

    #[test]
    fn a_placeholder_is_a_password_or_the_whole_encoded_login() {
        let [own, other] = ["me:a password", "you:c"].map(|login| BASE64_STANDARD.encode(login));
        let secret = HostSecret {
            name: "key".into(),
            hosts: Vec::new(),
            allow: Vec::new(),
            variable: None,
            file: None,
            access_key: None,
            value: own.clone().into(),
        };
        // What a placeholder of letters means in base64: no text, another text, and nothing.
        for placeholder in [placeholder::new(&secret.value).unwrap(), other, "x".into()] {
            let held = Held { secret: secret.clone(), placeholder, access_key: None };
            let placeholder = &held.placeholder;
            assert_eq!(swapped_authorization(&held, &format!("Basic {placeholder}")), format!("Basic {own}"));
            let login = |word: &str| format!("basic {}", BASE64_STANDARD.encode(format!("me:{word}")));
            assert_eq!(swapped_authorization(&held, &login(placeholder)), login(&own));
        }
    }
}
