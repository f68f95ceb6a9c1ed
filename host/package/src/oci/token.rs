//! Answers authentication challenges of a registry. Sends a credential only to the registry that it was stored
//! for, and to hosts of the same site.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderValue;
use reqwest::{Method, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::credential::{Credential, Secret};
use super::error::{Failure, excerpt};
use super::exchange::{
    Ask, Asking, Payload, exchange, explained, leads_to_private_address, read, without_query,
};
use haft_core::net::is_loopback;

/// Time limit of a token request.
const WITHIN: Duration = Duration::from_secs(30);
/// Limit on the bytes of a token response.
const MAX_ANSWER: u64 = 64 << 10;
/// The client id in token requests.
const CLIENT: &str = "haft";

/// The parameters of an answer to a challenge.
pub(super) struct Asker<'a> {
    pub(super) asking: &'a Asking,
    pub(super) registry: &'a Url,
    pub(super) scope: &'a str,
    pub(super) credential: Option<&'a Credential>,
    /// Whether the challenge is from a public server.
    pub(super) from_public: bool,
}

/// An `Authorization` header, and the secrets in it that must be redacted.
pub(super) struct Authorization {
    pub(super) header: HeaderValue,
    pub(super) secrets: Vec<SecretString>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    token: Option<String>,
    /// OAuth's name for the token; many servers send both.
    #[serde(default)]
    access_token: Option<String>,
}

impl Asker<'_> {
    /// Answers `challenge`; returns `None` if no known credential fits.
    pub(super) async fn answer(&self, challenge: &Challenge) -> Result<Option<Authorization>, Failure> {
        match challenge {
            Challenge::Basic => self.credential.map(basic).transpose().map(Option::flatten),
            Challenge::Bearer { realm, service } => self.bearer(realm, service.as_deref()).await.map(Some),
        }
    }

    async fn bearer(&self, realm: &str, service: Option<&str>) -> Result<Authorization, Failure> {
        let url = self.realm(realm)?;
        let ask = self.token_ask(url, service);
        let shown = match self.credential.map(|credential| &credential.secret) {
            Some(Secret::Password { .. }) => self.credential.map(basic).transpose()?.flatten(),
            _ => None,
        };
        let response = exchange(self.asking, &ask, shown.as_ref().map(|shown| &shown.header), WITHIN).await?;
        let status = response.status().as_u16();
        if matches!(status, 400 | 401 | 403) {
            let who =
                self.credential.map_or_else(|| "a request without a login".to_owned(), Credential::describe);
            return Err(Failure::Denied { who, body: explained(response).await });
        }
        if !response.status().is_success() {
            return Err(Failure::Status { status, body: explained(response).await });
        }
        token(&read(response, "the answer with the token", MAX_ANSWER, WITHIN).await?)
    }

    /// Returns the URL of the token server, if the credential may be sent there.
    fn realm(&self, realm: &str) -> Result<Url, Failure> {
        let refuse = |shown: String, why: &str| Failure::Realm { realm: shown, why: why.to_owned() };
        let url = Url::parse(realm).map_err(|_| refuse(excerpt(realm), "not a valid URL"))?;
        let shown = without_query(&url);
        if leads_to_private_address(self.registry, &url)
            || !url.username().is_empty()
            || url.password().is_some()
        {
            return Err(refuse(shown, "haft does not connect there"));
        }
        let (registry_host, other) =
            (self.registry.host_str().unwrap_or_default(), url.host_str().unwrap_or_default());
        if self.credential.is_some() && !is_same_site(registry_host, other) {
            return Err(refuse(
                shown,
                &format!("the credentials for `{registry_host}` are not sent to `{other}`"),
            ));
        }
        Ok(url)
    }

    fn token_ask(&self, mut url: Url, service: Option<&str>) -> Ask {
        let identity = match self.credential.map(|credential| &credential.secret) {
            Some(Secret::IdentityToken(token)) => Some(token),
            _ => None,
        };
        let target = service.map(|service| ("service", service)).into_iter().chain([("scope", self.scope)]);
        let Some(identity) = identity else {
            url.query_pairs_mut().extend_pairs(target);
            return Ask { from_public: self.from_public, ..Ask::get(url) };
        };
        // A form body has the syntax of a query.
        let mut form = Url::clone(&url);
        form.set_query(None);
        let exchanged = [
            ("grant_type", "refresh_token"),
            ("client_id", CLIENT),
            ("refresh_token", identity.expose_secret()),
        ];
        form.query_pairs_mut().extend_pairs(target.chain(exchanged));
        let bytes = form.query().unwrap_or_default().as_bytes().to_vec();
        let payload = Payload::Bytes { media_type: "application/x-www-form-urlencoded".to_owned(), bytes };
        Ask { method: Method::POST, payload, from_public: self.from_public, ..Ask::get(url) }
    }
}

/// Returns the header of a user name and password; `None` for another secret.
fn basic(credential: &Credential) -> Result<Option<Authorization>, Failure> {
    let Secret::Password { name, password } = &credential.secret else { return Ok(None) };
    let pair = STANDARD.encode(format!("{name}:{}", password.expose_secret()));
    let header = header(&format!("Basic {pair}"));
    let header =
        header.ok_or_else(|| Failure::Credentials(format!("{} cannot be sent", credential.describe())))?;
    Ok(Some(Authorization { header, secrets: credential.secrets() }))
}

fn token(body: &[u8]) -> Result<Authorization, Failure> {
    let malformed = |why: &str| Failure::Malformed { what: "the answer with the token", why: why.to_owned() };
    // The message of serde_json contains the wrong value.
    let response: Answer = serde_json::from_slice(body).map_err(|_| malformed("has an unexpected form"))?;
    let token = response
        .token
        .or(response.access_token)
        .filter(|token| !token.is_empty())
        .ok_or_else(|| malformed("has no token"))?;
    let header = header(&format!("Bearer {token}")).ok_or_else(|| malformed("has an invalid token"))?;
    Ok(Authorization { header, secrets: vec![token.into()] })
}

/// Returns a header value that the HTTP client keeps out of its logs.
fn header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Reports whether the names of two hosts are of one site: `registry.gitlab.com` and `gitlab.com`,
/// `registry-1.docker.io` and `auth.docker.io`. A site has two labels in common, or three below suffixes with
/// two levels (`co.uk`).
fn is_same_site(one: &str, other: &str) -> bool {
    if one == other || (is_loopback(one) && is_loopback(other)) {
        return true;
    }
    let is_address =
        |host: &str| host.contains(':') || host.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit());
    if is_address(one) || is_address(other) {
        return false;
    }
    let labels = |host: &'_ str| host.split('.').rev().map(str::to_owned).collect::<Vec<_>>();
    let (one, other) = (labels(one), labels(other));
    let common = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let is_short = |at: usize, most: usize| one.get(at).is_some_and(|label| label.len() <= most);
    common >= if is_short(0, 2) && is_short(1, 3) { 3 } else { 2 }
}

// The authentication challenge of a 401 response (RFC 9110, section 11.6.1). Only parses it; which realm is
// trusted is decided elsewhere.

/// Limit on the bytes of the header: ten times the longest known one.
const MAX_HEADER: usize = 8 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A name and a password with every request.
    Basic,
    Bearer {
        /// The URL of the token server.
        realm: String,
        /// The registry's name at the token server.
        service: Option<String>,
    },
}

impl Challenge {
    /// Returns the preferred supported challenge of these headers: `Bearer` before `Basic`.
    pub(super) fn parse<'a>(headers: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let found: Vec<Self> =
            headers.into_iter().filter(|header| header.len() <= MAX_HEADER).filter_map(one).collect();
        let bearer = found.iter().find(|challenge| matches!(challenge, Self::Bearer { .. }));
        bearer.or(found.first()).cloned()
    }
}

fn one(header: &str) -> Option<Challenge> {
    let header = header.trim();
    let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let parameters = parameters(rest);
    let value = |target: &str| {
        let found = parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case(target));
        found.map(|(_, value)| value.clone())
    };
    Some(Challenge::Bearer { realm: value("realm")?, service: value("service") })
}

/// Parses `name=value` and `name="va\"lue"`, separated by commas.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    let mut characters = text.chars().peekable();
    while characters.peek().is_some() {
        let name: String = std::iter::from_fn(|| characters.next_if(|c| !matches!(c, '=' | ','))).collect();
        let value = match characters.next() {
            Some('=') if characters.next_if_eq(&'"').is_some() => quoted(&mut characters),
            Some('=') => {
                let value: String = std::iter::from_fn(|| characters.next_if(|c| *c != ',')).collect();
                value.trim().to_owned()
            }
            _ => continue,
        };
        parameters.push((name.trim().to_owned(), value));
        // Skip to the next comma, and past it.
        while characters.next().is_some_and(|c| c != ',') {}
    }
    parameters
}

fn quoted(characters: &mut impl Iterator<Item = char>) -> String {
    let mut value = String::new();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => value.extend(characters.next()),
            other => value.push(other),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_site_is_more_than_a_country() {
        for (one, other, expected) in [
            ("ghcr.io", "ghcr.io", true),
            ("registry-1.docker.io", "auth.docker.io", true),
            ("registry.gitlab.com", "gitlab.com", true),
            ("a.example.co.uk", "b.example.co.uk", true),
            ("127.0.0.1", "localhost", true),
            ("ghcr.io", "evil.io", false),
            ("a.co.uk", "b.co.uk", false),
            ("registry", "other", false),
            ("10.0.0.1", "11.0.0.1", false),
            ("ghcr.io", "ghcr.io.evil.test", false),
        ] {
            assert_eq!(is_same_site(one, other), expected, "{one} {other}");
        }
    }

    fn asker<'a>(asking: &'a Asking, registry: &'a Url, credential: Option<&'a Credential>) -> Asker<'a> {
        Asker { asking, registry, scope: "repository:a:pull", credential, from_public: false }
    }

    /// CL04: a token is requested at the registry's realm, and a credential is sent only to permitted hosts.
    #[tokio::test]
    async fn a_credential_goes_to_its_own_site() {
        let client = Asking::new(false).unwrap();
        let credential = Credential::from_password("u", "password-4711", "a file");
        let (public, local) =
            (Url::parse("https://ghcr.io").unwrap(), Url::parse("http://localhost:1").unwrap());
        for (registry, realm, anonymous, known) in [
            (&public, "https://ghcr.io/token", true, true),
            (&public, "https://evil.test/token", true, false),
            (&public, "http://ghcr.io/token", false, false),
            (&public, "https://127.0.0.1/token", false, false),
            (&public, "file:///etc/passwd", false, false),
            (&public, "https://u:p@ghcr.io/token", false, false),
            (&public, "nonsense", false, false),
            (&local, "http://127.0.0.1:2/token", true, true),
            (&local, "https://evil.test/token", true, false),
        ] {
            assert_eq!(asker(&client, registry, None).realm(realm).is_ok(), anonymous, "{realm}");
            let known_here = asker(&client, registry, Some(&credential)).realm(realm);
            assert_eq!(known_here.is_ok(), known, "{realm}");
            assert!(!format!("{known_here:?}").contains("4711"));
        }
    }

    #[test]
    fn a_token_is_read_by_either_name_and_never_shown() {
        assert_eq!(token(br#"{ "token": "abc" }"#).unwrap().header, "Bearer abc");
        assert_eq!(token(br#"{ "access_token": "abc", "expires_in": 3 }"#).unwrap().header, "Bearer abc");
        assert_eq!(token(br#"{ "token": "abc", "access_token": "def" }"#).unwrap().header, "Bearer abc");
        for body in [
            &b"{}"[..],
            b"<html>",
            br#"{ "token": "" }"#,
            br#"{ "token": "secret\n" }"#,
            br#"{ "token": 4711 }"#,
        ] {
            let Err(failure) = token(body) else { panic!("{body:?}") };
            assert!(
                !failure.to_string().contains("4711") && !failure.to_string().contains("secret"),
                "{failure}"
            );
        }
    }

    fn bearer(realm: &str, service: &str) -> Challenge {
        Challenge::Bearer { realm: realm.to_owned(), service: Some(service.to_owned()) }
    }

    #[test]
    fn the_challenges_of_registries_are_read() {
        let docker = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        let expected = bearer("https://auth.docker.io/token", "registry.docker.io");
        assert_eq!(Challenge::parse([docker]), Some(expected));
        assert_eq!(Challenge::parse([r#"Basic realm="x""#]), Some(Challenge::Basic));
        assert_eq!(Challenge::parse(["basic", r#"bearer realm=a , service="b""#]), Some(bearer("a", "b")));
        let quoted = Challenge::parse([r#"BEARER Service="a\"b", Realm="c""#]);
        assert_eq!(quoted, Some(bearer("c", "a\"b")));
    }

    #[test]
    fn what_is_not_understood_is_none() {
        let long = format!("Bearer realm=\"{}\"", "a".repeat(MAX_HEADER));
        for header in ["", "Negotiate abc", "Bearer", "Bearer service=\"a\"", &long] {
            assert_eq!(Challenge::parse([header]), None, "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_header_is_too_odd(header in "(Bearer |Basic )?([a-z]{1,5}=|\"|,|\\\\|[a-z ]|=){0,30}") {
            let _ = Challenge::parse([header.as_str()]);
        }
    }
}
