//! Who is let in: whoever shows the token of the server, or one of several callers, each with its own. A refusal says by
//! which challenge a client can get a token (RFC 6750, RFC 9728).

use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use tokio::runtime::Handle;

use super::response::Refusal;
use super::token::Token;
use crate::server::handler::ServerShared;
use haft_callers::{Caller, Callers, Denied};

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

/// The caller id of clients without a token.
const ANYBODY: &str = "anybody over HTTP";

/// The caller id where callers are told apart, until one is known: no client has it.
const NOBODY: &str = "nobody over HTTP";

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
            Self::Token(token) if token.is_shown(headers) => Ok(shared.clone()),
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
    let challenge = HeaderValue::try_from(format!("Bearer realm=\"haft\"{metadata}{more}")).ok();
    Refusal::new(status, denied.to_string()).with_challenge(challenge)
}

/// A text inside a quoted string of a header: RFC 6750 has neither quotes nor backslashes there.
fn quoted(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_graphic() && c != '"' && c != '\\' || c == ' ' { c } else { '\'' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_token_is_shown_once_and_as_a_bearer_token() {
        assert_eq!(bearer(&headers(&["bearer  x"])), Some("x"));
        for wrong in [&[][..], &["x"], &["Basic x"], &["Bearer "], &["Bearer x", "Bearer y"]] {
            assert_eq!(bearer(&headers(wrong)), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_challenge_stays_one_header() {
        assert_eq!(quoted("a \"b\\\n`ü"), "a 'b''`'");
    }
}
