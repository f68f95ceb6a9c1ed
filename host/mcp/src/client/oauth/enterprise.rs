//! Logins by a company's identity provider (MCP's extension for enterprise-managed authorization): the provider
//! exchanges the person's token for an assertion to one authorization server (RFC 8693, ID-JAG), and this server
//! exchanges the assertion for an access token (RFC 7523). rmcp implements both exchanges and checks the assertion.

use oauth2::{ClientSecret, RefreshToken};
use reqwest::Url;
use rmcp::transport::auth::enterprise::{
    EmaAccessToken, EmaAuthorizationServer, EmaClientAuthentication, EmaError, EmaExchangeRequest,
    EmaExchangeStage,
};
use rmcp::transport::auth::{AuthorizationMetadata, StoredCredentials};
use serde_json::{Value, json};

use super::exchange::Exchange;
use super::service::stored;
use super::{Account, IdentityProvider, LoginError, metadata};

/// The path of an identity provider's metadata (`OpenID` Connect Discovery, section 4).
const OPENID: &str = "/.well-known/openid-configuration";

impl Account {
    /// Returns the credentials that `provider` allows for the client `id` at the server of `metadata`.
    pub(super) async fn by_identity(
        &self,
        exchange: &Exchange,
        metadata: &AuthorizationMetadata,
        (id, provider): (&str, &IdentityProvider),
        scopes: &[String],
    ) -> Result<StoredCredentials, LoginError> {
        let issuer = Url::parse(&provider.issuer);
        let issuer = issuer.map_err(|error| LoginError::new(format!("`issuer` is not a URL: {error}")))?;
        // The provider may have an address of another kind than the MCP server: the person wrote it.
        let at_provider = self.exchange_with(&issuer)?;
        let published = published(&at_provider, &provider.issuer).await?;
        let own = self.registered(&published, &provider.client_id, "identity_provider.client_secret").await?;
        let there = self.registered(metadata, id, "client_secret").await?;
        let resource = self.url()?;
        let id_token = self.secret("id_token").await?;
        let refresh_token = match id_token {
            Some(_) => String::new(),
            None => self.secret("refresh_token").await?.unwrap_or_default(),
        };
        let refresh_token = RefreshToken::new(refresh_token);
        let request = match &id_token {
            Some(token) => EmaExchangeRequest::new_with_id_token(own, there, resource.as_str(), token),
            None => EmaExchangeRequest::new(own, there, resource.as_str(), &refresh_token),
        };
        let token = request.with_scopes(scopes).exchange(&at_provider, exchange).await;
        let token = token.map_err(|error| refused(&error))?;
        stored(id, metadata, response(&token), token.scopes.into_iter().collect())
    }

    /// Returns the authorization server of `metadata` with haft's client there, whose secret is the setting `secret`.
    async fn registered(
        &self,
        metadata: &AuthorizationMetadata,
        id: &str,
        secret: &str,
    ) -> Result<EmaAuthorizationServer, LoginError> {
        let issuer = metadata.issuer.as_deref().unwrap_or_default();
        let server = EmaAuthorizationServer::new(issuer, &metadata.token_endpoint, id);
        let Some(secret) = self.secret(secret).await?.map(ClientSecret::new) else { return Ok(server) };
        let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
        let has = |method: &str| {
            methods.and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == method))
        };
        // Basic authentication is the default where the metadata names no method (RFC 8414, section 2).
        let in_body = has("client_secret_post") && !has("client_secret_basic");
        Ok(server.with_client_authentication(if in_body {
            EmaClientAuthentication::ClientSecretPost(secret)
        } else {
            EmaClientAuthentication::ClientSecretBasic(secret)
        }))
    }
}

/// Returns the metadata that the identity provider `issuer` publishes.
async fn published(exchange: &Exchange, issuer: &str) -> Result<AuthorizationMetadata, LoginError> {
    let invalid = |why: &str| LoginError::new(format!("the identity provider `{issuer}` {why}"));
    let url = Url::parse(&format!("{}{OPENID}", issuer.trim_end_matches('/')));
    let url = url.map_err(|error| invalid(&error.to_string()))?;
    let request = exchange.get(url.clone()).build().map_err(|error| invalid(&error.to_string()))?;
    let answer = exchange.send(request).await;
    let answer = answer.map_err(|error| invalid(&format!("gives {error}")))?;
    if !answer.status().is_success() {
        return Err(invalid(&format!("answered `{url}` with {}", answer.status())));
    }
    let found = metadata::own(&url, answer.body());
    let found = found.filter(|found| found.issuer.as_deref() == Some(issuer));
    found.ok_or_else(|| {
        invalid(&format!("is not the issuer in `{url}`")).with_hint("write `issuer` as that document has it")
    })
}

/// Returns the answer of a token endpoint, as rmcp stores it.
fn response(token: &EmaAccessToken) -> Value {
    let seconds = token.expires_in.map(|time| time.as_secs());
    json!({ "access_token": token.access_token.secret(), "token_type": "bearer", "expires_in": seconds })
}

fn refused(error: &EmaError) -> LoginError {
    use EmaExchangeStage::{IdentityProvider as Provider, ResourceAuthorizationServer as Server};
    let (why, hint) = match error {
        EmaError::InvalidGrant(Provider) | EmaError::InsufficientUserAuthentication(Provider) => (
            "the identity provider refuses the person's token: it has expired or was revoked",
            "log in at the identity provider, and renew the value of `id_token` or `refresh_token`",
        ),
        EmaError::OAuthRejected { stage: Provider, code: "access_denied", .. } => (
            "the identity provider does not allow this MCP server for the person",
            "ask the administrators of the identity provider",
        ),
        EmaError::InvalidGrant(Server) => (
            "the authorization server refuses the identity provider's assertion",
            "the MCP server has to trust this identity provider",
        ),
        other => return LoginError::new(format!("the login by the identity provider failed: {other}")),
    };
    LoginError::new(why).with_hint(hint)
}
