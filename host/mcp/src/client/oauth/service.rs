//! Logins without a person: haft logs in as the client itself (OAuth 2.1 client credentials; MCP's extension for machine-to-machine
//! authorization), by its secret or by a token that it signs (RFC 7523); or a company's identity provider logs it in.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use rmcp::transport::auth::{
    AuthorizationManager, AuthorizationMetadata, ClientCredentialsConfig, CredentialStore,
    InMemoryCredentialStore, OAuthTokenResponse, StoredCredentials,
};
use serde_json::{Value, json};

use super::exchange::Exchange;
use super::login::Client;
use super::revocation::form;
use super::sign_in::{discovered, endpoint};
use super::{Account, Login, LoginError};
use haft_core::random;

/// Seconds for which a signed token is valid.
const VALID: u64 = 60;

impl Account {
    /// Returns a new login of haft itself, and stores it.
    pub(super) async fn service_login(&self) -> Result<Login, LoginError> {
        let exchange = Arc::new(self.exchange()?);
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(self.url()?, exchange.clone()).await?;
        let challenge = self.challenge(&exchange).await?;
        let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await?;
        let metadata = discovered(&exchange, found)?;
        manager.set_metadata(metadata.clone());
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
pub(super) fn stored(
    id: &str,
    metadata: &AuthorizationMetadata,
    response: Value,
    scopes: Vec<String>,
) -> Result<StoredCredentials, LoginError> {
    let response: OAuthTokenResponse = serde_json::from_value(response)
        .map_err(|_| LoginError::new("the authorization server sent no token"))?;
    let credentials = StoredCredentials::new(id.to_owned(), Some(response), scopes, Some(unix_seconds()));
    Ok(credentials.with_issuer(metadata.issuer.clone()))
}

/// Returns a signed token in which the client `id` identifies itself to the authorization server `issuer`.
fn assertion(id: &str, issuer: &str, pem: &str) -> Result<String, String> {
    let key = SigningKey::of(pem)?;
    let now = unix_seconds();
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

/// Returns the content of a text in PEM.
fn der(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once("-----BEGIN PRIVATE KEY-----")?;
    let (base64, _) = rest.split_once("-----END PRIVATE KEY-----")?;
    BASE64_STANDARD.decode(base64.split_whitespace().collect::<String>()).ok()
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
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
