//! Admits requests by origin and token. A web page can send requests to this machine, also under its own host name
//! that resolves to it (DNS rebinding); both are refused. Other programs can send any headers and are admitted by
//! the server's token, compared in constant time, or by the token of one of several callers. A refusal names the
//! challenge by which a client can get a token (RFC 6750, RFC 9728).

use std::net::{IpAddr, SocketAddr};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, StatusCode, Uri};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::response::Refusal;
use crate::server::handler::ServerShared;
use haft_callers::{Caller, Callers, Denied};
use haft_core::net::is_loopback;
use haft_core::random;

/// Minimum number of characters of a token that cannot be guessed.
const MIN_TOKEN: usize = 16;

/// The caller id of clients without a token.
const ANYBODY: &str = "anybody over HTTP";

/// The caller id before identification, if callers are identified: no client has it.
const NOBODY: &str = "nobody over HTTP";

/// The admitted requests.
#[derive(Debug)]
pub enum Admission {
    /// Every client that reaches the address.
    Anybody,
    /// Clients with this token, all of which are one caller.
    Token(Token),
    /// These callers, each with its own tools.
    Callers(Callers),
}

/// A bearer token.
#[derive(Debug)]
pub struct Token(SecretString);

/// The reason why a text is not a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token could be guessed.
    #[error("the token is too short: expected at least {MIN_TOKEN} random characters")]
    TooShort,
    /// The token cannot be sent.
    #[error("the token has white space or characters that are not allowed in an HTTP header")]
    NotAToken,
}

impl Admission {
    /// Returns the id of clients that are not distinguished.
    pub(super) fn caller_id(&self) -> String {
        match self {
            Self::Anybody => ANYBODY.to_owned(),
            Self::Token(token) => token.caller_id(),
            Self::Callers(_) => NOBODY.to_owned(),
        }
    }

    pub(super) fn asks(&self) -> bool {
        !matches!(self, Self::Anybody)
    }

    /// Returns the authorization servers and scopes of accepted tokens, if there are any.
    pub(super) fn issuers(&self) -> Option<(Vec<String>, Vec<String>)> {
        let Self::Callers(callers) = self else { return None };
        let issuers = callers.issuers();
        (!issuers.is_empty()).then(|| (issuers, callers.scopes()))
    }

    /// Returns the state that the client of an admitted request shares with others; `shared` is for clients that
    /// are not distinguished. Slow or connecting work runs on `runtime`.
    pub(super) async fn admit(
        &self,
        headers: &HeaderMap,
        shared: &ServerShared,
        runtime: &Handle,
    ) -> Result<ServerShared, Denied> {
        match self {
            Self::Anybody => Ok(shared.clone()),
            Self::Token(token) if bearer(headers).is_some_and(|shown| token.matches(shown)) => {
                Ok(shared.clone())
            }
            Self::Token(_) => Err(Denied::Missing),
            Self::Callers(callers) => {
                let token = bearer(headers).ok_or(Denied::Missing)?;
                let known = callers.recall(token);
                let caller = match known {
                    Some(known) => known,
                    None => verified(callers, token, runtime).await,
                };
                caller.map(|caller| shared.of_caller(caller))
            }
        }
    }
}

async fn verified(callers: &Callers, token: &str, runtime: &Handle) -> Result<Caller, Denied> {
    let (callers, token) = (callers.clone(), token.to_owned());
    let verified = runtime.spawn(async move { callers.verify(&token).await });
    // A verification may wait for keys. It ends with its connection, because connections are bounded.
    AbortOnDropHandle::new(verified).await.unwrap_or(Err(Denied::Unavailable))
}

/// Returns the token of a request, if it has one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut shown = headers.get_all(AUTHORIZATION).iter();
    let (Some(only), None) = (shown.next(), shown.next()) else { return None };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Returns the refusal of a client. `metadata` is the URL of the metadata about accepted tokens.
pub(super) fn refusal(denied: &Denied, metadata: Option<&str>) -> Refusal {
    let metadata = metadata.map(|url| format!(", resource_metadata=\"{url}\"")).unwrap_or_default();
    let (status, more) = match denied {
        // RFC 6750, section 3.1: a request without a token gets no error code.
        Denied::Missing => (StatusCode::UNAUTHORIZED, String::new()),
        Denied::Invalid(why) => (
            StatusCode::UNAUTHORIZED,
            format!(", error=\"invalid_token\", error_description=\"{}\"", quoted(why)),
        ),
        Denied::Scope(scopes) => {
            let scopes = quoted(&scopes.join(" "));
            (StatusCode::FORBIDDEN, format!(", error=\"insufficient_scope\", scope=\"{scopes}\""))
        }
        Denied::Unavailable => return Refusal::new(StatusCode::SERVICE_UNAVAILABLE, denied.to_string()),
    };
    let refusal = Refusal::new(status, denied.to_string());
    match HeaderValue::try_from(format!("Bearer realm=\"haft\"{metadata}{more}")) {
        Ok(challenge) => refusal.with(WWW_AUTHENTICATE, challenge),
        Err(_) => refusal,
    }
}

/// Returns a text inside a quoted string of a header: RFC 6750 has neither quotes nor backslashes there.
fn quoted(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_graphic() && c != '"' && c != '\\' || c == ' ' { c } else { '\'' })
        .collect()
}

impl Token {
    /// Returns a token that the user chose.
    pub fn new(token: SecretString) -> Result<Self, TokenError> {
        let text = token.expose_secret();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::NotAToken);
        }
        if text.len() < MIN_TOKEN { Err(TokenError::TooShort) } else { Ok(Self(token)) }
    }

    /// Returns an unguessable token.
    pub fn generate() -> std::io::Result<Self> {
        Ok(Self(SecretString::from(random::name::<{ random::KEY }>()?)))
    }

    /// Returns the token itself, for display to the user who configures the client.
    pub fn secret(&self) -> &SecretString {
        &self.0
    }

    /// Returns the caller id of clients with this token: a digest, equal in every process with this token.
    fn caller_id(&self) -> String {
        let digest =
            Sha256::new().chain_update("haft token\0").chain_update(self.0.expose_secret()).finalize();
        BASE64_URL_SAFE_NO_PAD.encode(digest)
    }

    /// Compares digests, which have one length: a common prefix with a guess reveals nothing about the token.
    fn matches(&self, token: &str) -> bool {
        let digests = [self.0.expose_secret(), token].map(Sha256::digest);
        let [own, other] = digests;
        own.iter().zip(other).fold(0, |difference, (own, other)| difference | (own ^ other)) == 0
    }
}

/// Checks that a request is for this server, and not from a foreign page. `local` is the local address of the
/// request, `hosts` the other names of this machine.
pub(super) fn check_source(
    headers: &HeaderMap,
    local: Option<SocketAddr>,
    hosts: &[String],
) -> Result<(), Refusal> {
    let Some(authority) = authority(headers) else {
        // RFC 9112, section 3.2.
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "expected one `Host`: a name or an address"));
    };
    if !is_own_host(authority.host(), local, hosts) {
        let why = "the `Host` of this request is not allowed; add it with `--allow-host`";
        return Err(Refusal::new(StatusCode::FORBIDDEN, why));
    }
    if !is_own_origin(headers) {
        let why = "requests from web pages are only accepted from pages of this machine";
        return Err(Refusal::new(StatusCode::FORBIDDEN, why));
    }
    Ok(())
}

pub(super) fn host_of(url: &str) -> Option<String> {
    url.parse::<Uri>().ok()?.host().map(str::to_owned)
}

/// Returns the value of the only `Host` header.
fn authority(headers: &HeaderMap) -> Option<Authority> {
    let mut all = headers.get_all(HOST).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    only.to_str().ok().and_then(|host| host.parse::<Authority>().ok())
}

fn is_own_host(host: &str, local: Option<SocketAddr>, hosts: &[String]) -> bool {
    let is_local = |local: SocketAddr| address(host) == Some(local.ip().to_canonical());
    is_loopback(host) || local.is_some_and(is_local) || hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
}

/// Returns whether `Origin` is missing or names this machine. `null` may be any page.
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
mod tests;
