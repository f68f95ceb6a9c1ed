//! A stored login: the client, its tokens, and their revocation at the authorization server that issued them (RFC
//! 7009). Its texts are secrets and are never printed.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oauth2::TokenResponse;
use reqwest::header::CONTENT_TYPE;
use reqwest::{StatusCode, Url};
use rmcp::transport::auth::{OAuthClientConfig, StoredCredentials};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::exchange::{Exchange, NoAnswer, is_token};
use crate::client::calls::shortened;

/// The remaining lifetime below which a token is renewed, at most half of its lifetime. The token must be valid until
/// the server has read the request.
const SPARE: Duration = Duration::from_secs(30);

/// A user's login at one server. Serialized with its tokens, for a store of secrets.
#[derive(Clone, Serialize, Deserialize)]
pub struct Login {
    pub(super) client: Client,
    pub(super) credentials: StoredCredentials,
    /// The endpoint that revokes tokens (RFC 7009), if there is one.
    pub(super) revocation: Option<String>,
}

/// The identity of haft at the authorization server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) redirect: String,
}

impl From<OAuthClientConfig> for Client {
    fn from(config: OAuthClientConfig) -> Self {
        Self { id: config.client_id, secret: config.client_secret, redirect: config.redirect_uri }
    }
}

impl Client {
    pub(super) fn config(&self) -> OAuthClientConfig {
        let config = OAuthClientConfig::new(&self.id, &self.redirect);
        match &self.secret {
            Some(secret) => config.with_client_secret(secret),
            None => config,
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("client", &self.client.id).finish_non_exhaustive()
    }
}

impl Login {
    /// Returns the authorization server that gave it.
    pub fn issuer(&self) -> Option<&str> {
        self.credentials.issuer.as_deref()
    }

    /// Returns haft's client id at the server.
    pub fn client_id(&self) -> &str {
        &self.client.id
    }

    /// Returns the scopes of the login, as the authorization server names them.
    pub fn scopes(&self) -> &[String] {
        &self.credentials.granted_scopes
    }

    /// Returns the expiry of the access token, if the authorization server stated it.
    pub fn expires(&self) -> Option<SystemTime> {
        let received = UNIX_EPOCH + Duration::from_secs(self.credentials.token_received_at?);
        received.checked_add(self.credentials.token_response.as_ref()?.expires_in()?)
    }

    /// Returns whether the login can be renewed without the user.
    pub fn is_renewable(&self) -> bool {
        self.refresh_token().is_some()
    }

    /// Returns all secret texts of the login.
    pub fn secrets(&self) -> Vec<SecretString> {
        let secret = self.client.secret.clone().map(SecretString::from);
        [self.token(), self.refresh_token(), secret].into_iter().flatten().collect()
    }

    /// Returns whether all tokens of the login are valid.
    pub(super) fn has_tokens(&self) -> bool {
        let mut tokens = [self.token(), self.refresh_token()].into_iter().flatten();
        tokens.all(|token| is_token(token.expose_secret()))
    }

    pub(super) fn token(&self) -> Option<SecretString> {
        Some(self.credentials.token_response.as_ref()?.access_token().secret().clone().into())
    }

    pub(super) fn refresh_token(&self) -> Option<SecretString> {
        Some(self.credentials.token_response.as_ref()?.refresh_token()?.secret().clone().into())
    }

    /// Returns whether the access token is `other`.
    pub(super) fn has(&self, other: Option<&SecretString>) -> bool {
        let text = |token: &SecretString| token.expose_secret().to_owned();
        self.token().as_ref().map(text) == other.map(text)
    }

    /// Returns whether the access token is valid long enough for a request.
    pub(super) fn lasts(&self) -> bool {
        let whole = self.credentials.token_response.as_ref().and_then(TokenResponse::expires_in);
        let spare = whole.map_or(SPARE, |whole| SPARE.min(whole / 2));
        self.expires().is_none_or(|end| end > SystemTime::now() + spare)
    }
}

/// The result of a revocation at the authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// The tokens are void.
    Yes,
    /// The server does not revoke: the tokens are valid until they expire.
    NotOffered,
    /// The revocation failed, for this reason.
    No(String),
}

/// Revokes the refresh token, with which the others end at most servers, and the access token.
pub(super) async fn revoke(exchange: &Exchange, login: &Login) -> Revoked {
    let Some(endpoint) = login.revocation.as_deref() else { return Revoked::NotOffered };
    let Ok(endpoint) = Url::parse(endpoint) else { return Revoked::NotOffered };
    let tokens = [("refresh_token", login.refresh_token()), ("access_token", login.token())];
    for (kind, token) in tokens {
        let Some(token) = token else { continue };
        if let Err(why) = revoke_one(exchange, login, &endpoint, (kind, token.expose_secret())).await {
            return Revoked::No(shortened(why));
        }
    }
    Revoked::Yes
}

async fn revoke_one(
    exchange: &Exchange,
    login: &Login,
    endpoint: &Url,
    (kind, token): (&str, &str),
) -> Result<(), String> {
    let pairs = [("token", token), ("token_type_hint", kind)];
    let status = match &login.client.secret {
        None => post(exchange, endpoint, &form(pairs, &[("client_id", &login.client.id)]), None).await,
        Some(secret) => {
            let basic = Some((login.client.id.as_str(), secret.as_str()));
            match post(exchange, endpoint, &form(pairs, &[]), basic).await {
                // Some servers require the secret in the body alone.
                Ok(StatusCode::UNAUTHORIZED | StatusCode::BAD_REQUEST) => {
                    let own = [("client_id", login.client.id.as_str()), ("client_secret", secret.as_str())];
                    post(exchange, endpoint, &form(pairs, &own), None).await
                }
                answered => answered,
            }
        }
    };
    match status.map_err(|error| error.to_string())? {
        status if status.is_success() => Ok(()),
        status => Err(format!("it answered with {status}")),
    }
}

async fn post(
    exchange: &Exchange,
    endpoint: &Url,
    body: &str,
    basic: Option<(&str, &str)>,
) -> Result<StatusCode, NoAnswer> {
    let request = exchange.post(endpoint.clone()).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    let request = match basic {
        Some((client, secret)) => request.basic_auth(client, Some(secret)),
        None => request,
    };
    Ok(exchange.send(request.body(body.to_owned()).build()?).await?.status())
}

pub(super) fn form(pairs: [(&str, &str); 2], more: &[(&str, &str)]) -> String {
    // The only available form encoder is that of a URL's query.
    let Ok(mut url) = Url::parse("http://localhost/") else { return String::new() };
    url.query_pairs_mut().extend_pairs(pairs.iter().chain(more));
    url.query().unwrap_or_default().to_owned()
}
