//! Who is let in. From where: a web page can send requests to this machine, also under a host name of its own that resolves to
//! it (DNS rebinding); both are refused. Programs other than browsers can send any headers: for those it is the token of the
//! server, compared in constant time, or one of several callers, each with its own. A refusal says by which challenge a client
//! can get a token (RFC 6750, RFC 9728).

use std::net::{IpAddr, SocketAddr};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, StatusCode, Uri};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;

use super::response::Refusal;
use crate::server::handler::ServerShared;
use haft_callers::{Caller, Callers, Denied};
use haft_core::net::is_loopback;
use haft_core::random;

/// Characters below which a token could be guessed.
const MIN_TOKEN: usize = 16;

/// The caller id of clients without a token.
const ANYBODY: &str = "anybody over HTTP";

/// The caller id where callers are told apart, until one is known: no client has it.
const NOBODY: &str = "nobody over HTTP";

/// Who is let in.
#[derive(Debug)]
pub enum Admission {
    /// Every client that reaches the address.
    Anybody,
    /// Those that show this token; all are one caller.
    Token(Token),
    /// These callers, each with its own tools.
    Callers(Callers),
}

/// A bearer token.
#[derive(Debug)]
pub struct Token(SecretString);

/// Why a text is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It could be guessed.
    #[error("the token is too short: expected at least {MIN_TOKEN} random characters")]
    TooShort,
    /// It cannot be sent.
    #[error("the token has white space or characters that are not allowed in an HTTP header")]
    NotAToken,
}

impl Admission {
    /// Identifies those who are not told apart.
    pub(super) fn caller_id(&self) -> String {
        match self {
            Self::Anybody => ANYBODY.to_owned(),
            Self::Token(token) => token.caller_id(),
            Self::Callers(_) => NOBODY.to_owned(),
        }
    }

    /// Whether a token is needed.
    pub(super) fn asks(&self) -> bool {
        !matches!(self, Self::Anybody)
    }

    /// The authorization servers and scopes of tokens that are taken, where there are any.
    pub(super) fn issuers(&self) -> Option<(Vec<String>, Vec<String>)> {
        let Self::Callers(callers) = self else { return None };
        let issuers = callers.issuers();
        (!issuers.is_empty()).then(|| (issuers, callers.scopes()))
    }

    /// What the client of a request shares with others, where it is let in; `shared` is for those who are not told
    /// apart. What takes time or opens connections is done on `runtime`.
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
    verified.await.unwrap_or(Err(Denied::Unavailable))
}

/// The token that a request shows, where it shows one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut shown = headers.get_all(AUTHORIZATION).iter();
    let (Some(only), None) = (shown.next(), shown.next()) else { return None };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The refusal of somebody who is not let in. `metadata` is where clients find which tokens are taken.
pub(super) fn refusal(denied: &Denied, metadata: Option<&str>) -> Refusal {
    let metadata = metadata.map(|url| format!(", resource_metadata=\"{url}\"")).unwrap_or_default();
    let (status, more) = match denied {
        // RFC 6750, section 3.1: whoever shows nothing is told of no error.
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

/// A text inside a quoted string of a header: RFC 6750 has neither quotes nor backslashes there.
fn quoted(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_graphic() && c != '"' && c != '\\' || c == ' ' { c } else { '\'' })
        .collect()
}

impl Token {
    /// A token that the user chose.
    pub fn new(token: SecretString) -> Result<Self, TokenError> {
        let text = token.expose_secret();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::NotAToken);
        }
        if text.len() < MIN_TOKEN { Err(TokenError::TooShort) } else { Ok(Self(token)) }
    }

    /// An unguessable token.
    pub fn generate() -> std::io::Result<Self> {
        Ok(Self(SecretString::from(random::name::<{ random::KEY }>()?)))
    }

    /// The token itself, to be shown to the person who configures the client.
    pub fn secret(&self) -> &SecretString {
        &self.0
    }

    /// The caller id of clients with this token: a digest, equal in every process with this token.
    fn caller_id(&self) -> String {
        let digest =
            Sha256::new().chain_update("haft token\0").chain_update(self.0.expose_secret()).finalize();
        BASE64_URL_SAFE_NO_PAD.encode(digest)
    }

    /// Digests are compared: they have one length, and what they have in common with a guess says
    /// nothing of the token.
    fn matches(&self, token: &str) -> bool {
        let digests = [self.0.expose_secret(), token].map(Sha256::digest);
        let [own, other] = digests;
        own.iter().zip(other).fold(0, |difference, (own, other)| difference | (own ^ other)) == 0
    }
}

/// Checks that a request is meant for this server, and comes from no foreign page. `local` is where it arrived, `hosts` what
/// else this machine is called.
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
mod tests;
