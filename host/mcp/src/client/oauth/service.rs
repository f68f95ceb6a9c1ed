//! Logins without a person: haft logs in as the client itself (OAuth 2.1 client credentials; MCP's extension for machine-to-machine
//! authorization), by its secret or by a token that it signs (RFC 7523); or a company's identity provider logs it in.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use oauth2::{ClientSecret, RefreshToken};
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use rmcp::transport::auth::enterprise::{
    EmaAccessToken, EmaAuthorizationServer, EmaClientAuthentication, EmaError, EmaExchangeRequest,
    EmaExchangeStage,
};
use rmcp::transport::auth::{
    AuthorizationManager, AuthorizationMetadata, ClientCredentialsConfig, CredentialStore,
    InMemoryCredentialStore, OAuthTokenResponse, StoredCredentials,
};
use serde_json::{Value, json};

use super::exchange::{Exchange, OPENID, own_metadata};
use super::login::{Client, form};
use super::sign_in::endpoint;
use super::{Account, IdentityProvider, Login, LoginError};
use crate::unix_time;
use haft_core::random;

/// Seconds for which a signed token is valid.
const VALID: u64 = 60;

impl Account {
    /// Returns a new login of haft itself, and stores it.
    pub(super) async fn service_login(&self) -> Result<Login, LoginError> {
        let (exchange, mut manager, metadata) = self.discover().await?;
        let scopes = self.scopes(&manager, metadata.issuer.as_deref(), &[]).await?;
        let id = self.settings.client_id.clone().unwrap_or_default();
        let key = self.secret("private_key").await?;
        let credentials = match (&self.settings.identity_provider, &key) {
            (Some(provider), _) => self.by_identity(&exchange, &metadata, (&id, provider), &scopes).await?,
            (None, Some(key)) => self.by_signature(&exchange, &metadata, (&id, key), &scopes).await?,
            (None, None) => self.by_secret(&mut manager, &id, scopes).await?,
        };
        let secret = self.secret("client_secret").await?;
        let client = Client { id, secret, redirect: String::new() };
        // A client that signs cannot revoke by its id alone.
        let revocation = if key.is_none() { endpoint(&metadata, "revocation_endpoint") } else { None };
        let login = Login { client, credentials, revocation };
        self.keep(&login).await?;
        Ok(login)
    }

    async fn by_secret(
        &self,
        manager: &mut AuthorizationManager,
        id: &str,
        scopes: Vec<String>,
    ) -> Result<StoredCredentials, LoginError> {
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: id.to_owned(),
            client_secret: self.secret("client_secret").await?.unwrap_or_default(),
            scopes,
            resource: Some(self.url()?.to_string()),
        };
        let store = InMemoryCredentialStore::new();
        manager.set_credential_store(store.clone());
        manager.validate_client_credentials_metadata(&config)?;
        manager.configure_client_credentials(&config)?;
        manager.exchange_client_credentials(&config).await?;
        let credentials = store.load().await?;
        credentials.ok_or_else(|| LoginError::new("the authorization server sent no token"))
    }

    /// Requests a token with an assertion that `key` signs. rmcp does so with another cryptographic library.
    async fn by_signature(
        &self,
        exchange: &Exchange,
        metadata: &AuthorizationMetadata,
        (id, key): (&str, &str),
        scopes: &[String],
    ) -> Result<StoredCredentials, LoginError> {
        let invalid =
            |error: &dyn std::fmt::Display| LoginError::new(format!("the token request failed: {error}"));
        let issuer = metadata.issuer.as_deref().unwrap_or_default();
        let assertion = assertion(id, issuer, key).map_err(LoginError::new)?;
        let (scope, resource) = (scopes.join(" "), self.url()?);
        let pairs = [("grant_type", "client_credentials"), ("client_assertion", &*assertion)];
        let mut more = vec![
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("resource", resource.as_str()),
        ];
        more.extend((!scope.is_empty()).then_some(("scope", &*scope)));
        let endpoint = Url::parse(&metadata.token_endpoint).map_err(|error| invalid(&error))?;
        let request = exchange.post(endpoint).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = request.body(form(pairs, &more)).build().map_err(|error| invalid(&error))?;
        let answer = exchange.tokens(request).await.map_err(|error| invalid(&error))?;
        let response = serde_json::from_slice(answer.body()).map_err(|_| invalid(&answer.status()))?;
        stored(id, metadata, response, scopes.to_vec())
    }
}

/// Returns the credentials of the client `id` from a token response of the authorization server of `metadata`.
fn stored(
    id: &str,
    metadata: &AuthorizationMetadata,
    response: Value,
    scopes: Vec<String>,
) -> Result<StoredCredentials, LoginError> {
    let response: OAuthTokenResponse = serde_json::from_value(response)
        .map_err(|_| LoginError::new("the authorization server sent no token"))?;
    let credentials =
        StoredCredentials::new(id.to_owned(), Some(response), scopes, Some(unix_time().as_secs()));
    Ok(credentials.with_issuer(metadata.issuer.clone()))
}

/// Returns a signed token in which the client `id` identifies itself to the authorization server `issuer`.
fn assertion(id: &str, issuer: &str, pem: &str) -> Result<String, String> {
    let key = SigningKey::of(pem)?;
    let now = unix_time().as_secs();
    let unique = random::name::<{ random::KEY }>().map_err(|error| error.to_string())?;
    let header = json!({ "alg": key.algorithm(), "typ": "JWT" });
    let claims =
        json!({ "iss": id, "sub": id, "aud": issuer, "iat": now, "exp": now + VALID, "jti": unique });
    let [header, claims] = [header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string()));
    let signed = format!("{header}.{claims}");
    let signature = key.sign(signed.as_bytes())?;
    Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
}

enum SigningKey {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

impl SigningKey {
    /// Reads a key in PEM (PKCS #8).
    fn of(pem: &str) -> Result<Self, String> {
        let der = der(pem).ok_or("`private_key` is not a key in PEM (`-----BEGIN PRIVATE KEY-----`)")?;
        let random = SystemRandom::new();
        let ecdsa = |algorithm| EcdsaKeyPair::from_pkcs8(algorithm, &der, &random).ok();
        let p256 = || ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING).map(Self::P256);
        let p384 = || ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Self::P384);
        let ed25519 = || Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).ok().map(Self::Ed25519);
        let rsa = || RsaKeyPair::from_pkcs8(&der).ok().map(Self::Rsa);
        p256().or_else(p384).or_else(ed25519).or_else(rsa).ok_or_else(|| {
            "`private_key`: expected a P-256, P-384, Ed25519 or RSA key (2048 bits or more)".to_owned()
        })
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::Ed25519(_) => "EdDSA",
            Self::Rsa(_) => "RS256",
        }
    }

    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        let random = SystemRandom::new();
        let signed = match self {
            Self::P256(key) | Self::P384(key) => key.sign(&random, text).map(|tag| tag.as_ref().to_vec()),
            Self::Ed25519(key) => Ok(key.sign(text).as_ref().to_vec()),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).map(|()| signature)
            }
        };
        signed.map_err(|_| "`private_key` cannot sign".to_owned())
    }
}

fn der(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once("-----BEGIN PRIVATE KEY-----")?;
    let (base64, _) = rest.split_once("-----END PRIVATE KEY-----")?;
    BASE64_STANDARD.decode(base64.split_whitespace().collect::<String>()).ok()
}

// Logins by a company's identity provider (MCP's extension for enterprise-managed authorization): the provider exchanges
// the person's token for an assertion to one authorization server (RFC 8693, ID-JAG), and this server exchanges the
// assertion for an access token (RFC 7523). rmcp implements both exchanges and checks the assertion.

impl Account {
    /// Returns the credentials that `provider` allows for the client `id` at the server of `metadata`.
    async fn by_identity(
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
    let found = own_metadata(&url, answer.body());
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

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};

    use super::*;

    /// The assertion names the client and the authorization server, and its key verifies it.
    #[test]
    fn an_assertion_is_signed_for_one_authorization_server() {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let body = BASE64_STANDARD.encode(&key);
        let (first, second) = body.split_at(64);
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{first}\n{second}\n-----END PRIVATE KEY-----\n");
        let token = assertion("me", "https://as.test", &pem).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref());
        public.verify(signed.as_bytes(), &BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        let [header, claims] = [0, 1].map(|part| -> Value {
            let part = signed.split('.').nth(part).unwrap();
            serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
        });
        assert_eq!(header["alg"], "ES256");
        assert_eq!(
            (&claims["iss"], &claims["sub"], &claims["aud"]),
            (&json!("me"), &json!("me"), &json!("https://as.test"))
        );
        assert!(assertion("me", "https://as.test", "no key").unwrap_err().contains("is not a key in PEM"));
    }
}
