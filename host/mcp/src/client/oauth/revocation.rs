//! Revokes the tokens of a login at the authorization server that issued them (RFC 7009).

use reqwest::header::CONTENT_TYPE;
use reqwest::{StatusCode, Url};
use secrecy::ExposeSecret;

use super::Login;
use super::exchange::{Exchange, NoAnswer};
use crate::client::calls::shortened;

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

/// Pairs as a form.
pub(super) fn form(pairs: [(&str, &str); 2], more: &[(&str, &str)]) -> String {
    // The only available form encoder is that of a URL's query.
    let Ok(mut url) = Url::parse("http://localhost/") else { return String::new() };
    url.query_pairs_mut().extend_pairs(pairs.iter().chain(more));
    url.query().unwrap_or_default().to_owned()
}
