//! The one HTTP client of logins. It follows no redirect, reads a bounded answer within a bounded time, connects to judged
//! addresses alone, and tells the redactor every token of an answer before anybody sees it.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Request, Url};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use secrecy::SecretString;
use serde_json::Value;

use super::LoginError;
use super::reach::{Reach, Resolver};
use crate::client::address::{USER_AGENT, is_this_machine};
use haft_core::net::chain;
use haft_core::secret::Redactor;

/// For one request, connecting included.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of an answer: documents and tokens have some KiB.
const MAX_ANSWER: usize = 1 << 20;
/// The members of an answer that are secrets (RFC 6749, RFC 7591, OIDC).
const SECRETS: &[&str] =
    &["access_token", "refresh_token", "id_token", "client_secret", "registration_access_token"];

/// An answer, read to its end.
pub(super) type Answer = ::http::Response<Vec<u8>>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    #[error(transparent)]
    Unreachable(#[from] super::reach::Unreachable),
    #[error("no answer: {}", chain(.0))]
    Failed(#[from] reqwest::Error),
    #[error("the answer has more than {} KiB", MAX_ANSWER >> 10)]
    TooLong,
}

/// Asks what a login needs.
pub(super) struct Exchange {
    client: Client,
    reach: Arc<Reach>,
    redactor: Redactor,
}

impl Exchange {
    pub(super) fn new(server: &Url, redactor: Redactor) -> Result<Self, LoginError> {
        let failed = |why: String| LoginError::new(format!("no client of HTTP: {why}"));
        let reach = Reach::of(server);
        let is_remote = server.scheme() == "https";
        let tls = haft_core::net::tls(is_remote).map_err(|error| failed(error.to_string()))?;
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .tls_backend_preconfigured(tls)
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .dns_resolver(Arc::new(Resolver(reach.clone())))
            .timeout(PATIENCE);
        if is_this_machine(server) {
            builder = builder.no_proxy().pool_max_idle_per_host(0);
        }
        let client = builder.build().map_err(|error| failed(chain(&error)))?;
        Ok(Self { client, reach, redactor })
    }

    /// Whether `url` may be asked, or opened by a browser.
    pub(super) async fn judge(&self, url: &Url) -> Result<(), LoginError> {
        self.reach.judge(url).await.map_err(|why| LoginError::new(why.to_string()))
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
        self.learn(&body);
        let (head, _) = ::http::Response::from(response).into_parts();
        Ok(Answer::from_parts(head, body))
    }

    fn learn(&self, body: &[u8]) {
        let Ok(answer) = serde_json::from_slice::<Value>(body) else { return };
        let found = SECRETS.iter().filter_map(|name| answer.get(name)?.as_str());
        let found: Vec<SecretString> = found.map(SecretString::from).collect();
        self.redactor.add(&found);
    }
}

impl OAuthHttpClient for Exchange {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = Request::try_from(request.request)?;
            let answer = self.send(request).await;
            answer.map_err(|error| Box::new(error) as Box<dyn Error + Send + Sync>)
        })
    }
}
