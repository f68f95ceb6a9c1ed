//! Replaces placeholders by their secrets: in the values of headers, in user names and passwords, and in the
//! query. Not in the path or the body.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::Uri;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use secrecy::ExposeSecret;

use super::Held;
use haft_core::secret::in_url;

/// The names of the secrets that a request uses.
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
        *value =
            HeaderValue::from_maybe_shared(bytes::Bytes::from(swapped)).map_err(|_| unsendable(&used))?;
        value.set_sensitive(true);
    }
    let query = parts.uri.query().and_then(|query| swapped(query, held, in_url, &mut used));
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
    let basic = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"));
    match basic.filter(|_| *name == AUTHORIZATION) {
        Some((scheme, login)) => {
            let login = BASE64_STANDARD.decode(login.trim()).ok()?;
            let login = swapped(std::str::from_utf8(&login).ok()?, held, str::to_owned, used)?;
            Some(format!("{scheme} {}", BASE64_STANDARD.encode(login)))
        }
        None => swapped(text, held, str::to_owned, used),
    }
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
