//! The only HTTP client of logins. Follows no redirect, reads responses within limits of size and time, connects
//! only to checked addresses, and registers every token of a response with the redactor before it is used. Records
//! the issuer of the metadata that it has read.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::{Client, Method, Request, StatusCode, Url};
use rmcp::transport::auth::{
    AuthorizationMetadata, OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest,
};
use secrecy::SecretString;
use serde_json::Value;

use super::LoginError;
use super::reach::{Reach, Resolver};
use crate::client::address::{USER_AGENT, is_this_machine};
use haft_core::net::chain;
use haft_core::secret::Redactor;
use haft_core::sync::Lock;

/// Time limit for one request, with the connection.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of bytes of an answer: documents and tokens have some KiB.
const MAX_ANSWER: usize = 1 << 20;
/// The members of an answer that are secrets (RFC 6749, RFC 7591, OIDC).
const SECRETS: &[&str] =
    &["access_token", "refresh_token", "id_token", "client_secret", "registration_access_token"];
/// Minimum number of characters of a secret in an answer: shorter texts are words, which redaction would remove from
/// every text.
const MIN_TOKEN: usize = 16;
/// Maximum number of characters of a secret.
const MAX_TOKEN: usize = 64 << 10;
/// Minimal size in bytes that a token counts, for the bound of an account's tokens.
const COST: usize = 512;

/// The path of the metadata of authorization servers (RFC 8414, section 3).
const OAUTH: &str = "/.well-known/oauth-authorization-server";
/// The path of the metadata of OIDC providers (`OpenID` Connect Discovery, section 4).
pub(super) const OPENID: &str = "/.well-known/openid-configuration";

/// The definition of a token, for errors.
pub(super) const TOKEN: &str = "16 to 65,536 visible characters of ASCII";

/// Returns whether `text` is a token that haft takes from an authorization server: [`TOKEN`] (RFC 6749, appendix A,
/// without spaces).
pub(super) fn is_token(text: &str) -> bool {
    (MIN_TOKEN..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A complete answer.
pub(super) type Answer = ::http::Response<Vec<u8>>;

/// The reason for a missing answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    #[error(transparent)]
    Unreachable(#[from] super::reach::Unreachable),
    #[error("no answer: {}", chain(.0))]
    Failed(#[from] reqwest::Error),
    #[error("the answer has more than {} KiB", MAX_ANSWER >> 10)]
    TooLong,
}

pub(super) struct Exchange {
    client: Client,
    reach: Arc<Reach>,
    redactor: Redactor,
    /// Bytes of the tokens that the account has learned.
    learned: Arc<AtomicUsize>,
    /// The metadata last read at their issuer's location.
    metadata: Lock<Option<AuthorizationMetadata>>,
}

impl Exchange {
    pub(super) fn new(
        server: &Url,
        redactor: Redactor,
        learned: Arc<AtomicUsize>,
    ) -> Result<Self, LoginError> {
        let failed = |why: String| LoginError::new(format!("cannot create an HTTP client: {why}"));
        let reach = Reach::of(server);
        let is_local = is_this_machine(server);
        let mut builder = haft_core::net::client(server.scheme() == "https", is_local)
            .map_err(|error| failed(error.to_string()))?
            .user_agent(USER_AGENT)
            .dns_resolver(Arc::new(Resolver(reach.clone())))
            .timeout(PATIENCE);
        if is_local {
            builder = builder.pool_max_idle_per_host(0);
        }
        let client = builder.build().map_err(|error| failed(chain(&error)))?;
        Ok(Self { client, reach, redactor, learned, metadata: Lock::default() })
    }

    /// Checks that `url` may be requested, or opened by a browser.
    pub(super) async fn judge(&self, url: &Url) -> Result<(), LoginError> {
        self.reach.judge(url).await.map_err(|why| LoginError::new(why.to_string()))
    }

    /// Starts a request that [`Self::send`] sends.
    pub(super) fn get(&self, url: Url) -> reqwest::RequestBuilder {
        self.client.get(url)
    }

    /// Starts a request that [`Self::send`] sends.
    pub(super) fn post(&self, url: Url) -> reqwest::RequestBuilder {
        self.client.post(url)
    }

    pub(super) async fn send(&self, request: Request) -> Result<Answer, NoAnswer> {
        self.reach.judge(request.url()).await?;
        let mut response = self.client.execute(request).await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(NoAnswer::TooLong);
            }
            body.extend_from_slice(&chunk);
        }
        let (head, _) = ::http::Response::from(response).into_parts();
        Ok(Answer::from_parts(head, body))
    }

    pub(super) async fn tokens(&self, request: Request) -> Result<Answer, NoAnswer> {
        let (method, url) = (request.method().clone(), request.url().clone());
        self.send(request).await.inspect(|answer| self.note(&method, &url, answer))
    }

    /// Returns whether `metadata` was read at the location that its issuer publishes.
    pub(super) fn has_read(&self, metadata: &AuthorizationMetadata) -> bool {
        let read = self.metadata.lock();
        let (read, found) = (read.as_ref().map(serde_json::to_value), serde_json::to_value(metadata));
        matches!((read, found), (Some(Ok(read)), Ok(found)) if read == found)
    }

    /// Records the answer to a request of rmcp, whose posts are for tokens and registrations.
    fn note(&self, method: &Method, url: &Url, answer: &Answer) {
        match *method {
            Method::GET if answer.status() == StatusCode::OK => {
                if let Some(own) = own_metadata(url, answer.body()) {
                    *self.metadata.lock() = Some(own);
                }
            }
            Method::POST if answer.status().is_success() => self.learn(answer.body()),
            _ => {}
        }
    }

    fn learn(&self, body: &[u8]) {
        let Ok(answer) = serde_json::from_slice::<Value>(body) else { return };
        let found = SECRETS.iter().filter_map(|name| answer.get(name)?.as_str());
        let found: Vec<&str> = found.filter(|text| is_token(text)).collect();
        let cost: usize = found.iter().map(|text| text.len().max(COST)).sum();
        self.learned.fetch_add(cost, Ordering::Relaxed);
        self.redactor.add(&found.into_iter().map(SecretString::from).collect::<Vec<_>>());
    }
}

impl OAuthHttpClient for Exchange {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = Request::try_from(request.request)?;
            let answer = self.tokens(request).await;
            answer.map_err(|error| Box::new(error) as Box<dyn Error + Send + Sync>)
        })
    }
}

/// Returns the metadata in `body`, read at `url`; `None` if `body` is not metadata, or if the issuer publishes its
/// metadata elsewhere. A document names its own issuer, so it counts only at the location that this issuer
/// publishes (RFC 8414, section 3.3): otherwise any server could name another issuer and receive codes and tokens
/// for it.
pub(super) fn own_metadata(url: &Url, body: &[u8]) -> Option<AuthorizationMetadata> {
    let metadata: AuthorizationMetadata = serde_json::from_slice(body).ok()?;
    let issuer = Url::parse(metadata.issuer.as_deref()?).ok()?;
    is_place(&issuer, url).then_some(metadata)
}

/// Returns whether `issuer` has its metadata at `url`. The root of a host is valid for each of its paths; a path is
/// valid only for itself.
fn is_place(issuer: &Url, url: &Url) -> bool {
    let (path, read) = (issuer.path().trim_matches('/'), url.path().trim_end_matches('/'));
    let has_place = match path {
        "" => read == OAUTH || read == OPENID,
        path => {
            read == OAUTH
                || [format!("{OAUTH}/{path}"), format!("{OPENID}/{path}"), format!("/{path}{OPENID}")]
                    .iter()
                    .any(|place| place == read)
        }
    };
    has_place && issuer.origin() == url.origin() && issuer.query().is_none() && issuer.fragment().is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exchange() -> (Exchange, Redactor) {
        let (server, redactor) = (Url::parse("http://127.0.0.1:1/mcp").unwrap(), Redactor::default());
        (Exchange::new(&server, redactor.clone(), Arc::default()).unwrap(), redactor)
    }

    fn answer(status: u16, body: &Value) -> Answer {
        ::http::Response::builder().status(status).body(body.to_string().into_bytes()).unwrap()
    }

    /// An invalid token of an authorization server is not added to the redactor.
    #[test]
    fn what_is_no_token_is_not_learned() {
        let (exchange, redactor) = exchange();
        let url = Url::parse("https://a.test/token").unwrap();
        let long = "x".repeat(MAX_TOKEN + 1);
        for word in ["https://", "function", "a word and another one", long.as_str()] {
            let body = json!({ "access_token": word });
            exchange.note(&Method::POST, &url, &answer(200, &body));
            assert_eq!(redactor.redact(word), word);
        }
        let token = "at-4711-QWNjZXNzQWNjZXNz";
        let body = json!({ "access_token": token });
        exchange.note(&Method::POST, &url, &answer(400, &body));
        exchange.note(&Method::GET, &url, &answer(200, &body));
        assert_eq!((&*redactor.redact(token), exchange.learned.load(Ordering::Relaxed)), (token, 0));
        exchange.note(&Method::POST, &url, &answer(200, &body));
        assert_eq!((&*redactor.redact(token), exchange.learned.load(Ordering::Relaxed)), ("***", COST));
    }

    fn is_own(issuer: &str, url: &str) -> bool {
        let document = json!({
            "issuer": issuer, "authorization_endpoint": "https://a.test/a", "token_endpoint": "https://a.test/t",
        });
        own_metadata(&Url::parse(url).unwrap(), document.to_string().as_bytes()).is_some()
    }

    #[test]
    fn metadata_counts_where_its_issuer_has_it() {
        for (issuer, url) in [
            ("https://a.test", "https://a.test/.well-known/oauth-authorization-server"),
            ("https://a.test/", "https://a.test/.well-known/openid-configuration"),
            ("https://a.test/x/", "https://a.test/.well-known/oauth-authorization-server/x"),
            ("https://a.test/x", "https://a.test/.well-known/openid-configuration/x/"),
            ("https://a.test/x/y", "https://a.test/x/y/.well-known/openid-configuration"),
            ("https://a.test/x", "https://a.test/.well-known/oauth-authorization-server"),
        ] {
            assert!(is_own(issuer, url), "{issuer} {url}");
        }
        for (issuer, url) in [
            ("https://a.test", "https://evil.test/.well-known/oauth-authorization-server"),
            ("https://a.test", "https://a.test:444/.well-known/oauth-authorization-server"),
            ("https://a.test", "http://a.test/.well-known/oauth-authorization-server"),
            ("https://a.test", "https://a.test/evil/.well-known/openid-configuration"),
            ("https://a.test", "https://a.test//.well-known/openid-configuration"),
            ("https://a.test", "https://a.test/.well-known/oauth-authorization-server/evil"),
            ("https://a.test/x", "https://a.test/evil/.well-known/openid-configuration"),
            ("https://a.test", "https://a.test/.well-known/planted"),
            ("https://a.test?x", "https://a.test/.well-known/oauth-authorization-server"),
            ("a.test", "https://a.test/.well-known/oauth-authorization-server"),
        ] {
            assert!(!is_own(issuer, url), "{issuer} {url}");
        }
        let nobody =
            json!({ "authorization_endpoint": "https://a.test/a", "token_endpoint": "https://a.test/t" });
        let url = Url::parse("https://a.test/.well-known/oauth-authorization-server").unwrap();
        assert!(own_metadata(&url, nobody.to_string().as_bytes()).is_none());
    }
}
