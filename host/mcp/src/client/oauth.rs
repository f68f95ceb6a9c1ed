//! Logins at servers over HTTP, by MCP's authorization specification (2026-07-28): OAuth 2.1 with discovery (RFC
//! 9728, RFC 8414, OIDC), PKCE with S256 (RFC 7636), resource indicators (RFC 8707), issuer identification (RFC
//! 9207) and revocation (RFC 7009). rmcp implements the protocol; haft decides which addresses are contacted, where
//! a login is stored and when the user is prompted.
//!
//! Only [`Account::sign_in`] prompts the user. A server in use renews its tokens silently, and names
//! `haft mcp login` if that fails. A token is sent only to the server for which it was issued.

mod account;
mod exchange;
mod login;
mod reach;
mod service;
mod sign_in;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use rmcp::transport::AuthError;
use rmcp::transport::auth::AuthorizationMetadata;

use super::Values;
use super::calls::shortened;
use haft_core::net::chain;
use haft_core::tool::foreign;

pub use self::account::Account;
pub use self::login::{Login, Revoked};
pub use self::sign_in::SignIn;

/// haft's identity at an authorization server, and the requested scopes.
#[derive(Clone, Debug, Default)]
pub struct OAuthSettings {
    /// The id of a client that was registered at the server by hand. It precedes the other two ways.
    pub client_id: Option<String>,
    /// The secrets, by name: `client_secret`; `private_key` in PEM, which signs haft's tokens for the authorization
    /// server instead of a secret; and the identity provider's `id_token` or `refresh_token`, and
    /// `identity_provider.client_secret`.
    pub secrets: Option<Arc<dyn Values>>,
    /// Whether haft logs in as the client itself, without a person.
    pub client_credentials: bool,
    /// The identity provider whose token logs haft in, without a person.
    pub identity_provider: Option<IdentityProvider>,
    /// The requested scopes; if empty, the scopes that the server requires.
    pub scopes: Vec<String>,
    /// The URL of haft's client ID metadata document, for servers that support it. Otherwise haft is registered at
    /// each login (RFC 7591).
    pub client_metadata_url: Option<String>,
    /// The port of 127.0.0.1 for the redirect of the browser; `None` for any free port.
    pub callback_port: Option<u16>,
}

/// A company's identity provider, and haft's identity there.
#[derive(Clone, Debug)]
pub struct IdentityProvider {
    /// The provider's issuer, as its metadata states it.
    pub issuer: String,
    /// The id of a client that was registered there by hand.
    pub client_id: String,
}

impl OAuthSettings {
    /// Returns an identity, equal for equal settings. Represents a secret by its source.
    pub(super) fn identity(&self) -> String {
        let Self { client_id, client_credentials, identity_provider, scopes, client_metadata_url, .. } = self;
        let secrets = self.secrets.as_ref().map(|secrets| secrets.identity());
        format!(
            "{client_id:?} {secrets:?} {scopes:?} {client_metadata_url:?} {client_credentials} \
             {identity_provider:?}"
        )
    }

    pub(super) fn is_unattended(&self) -> bool {
        self.client_credentials || self.identity_provider.is_some()
    }
}

/// The storage of the login at one server, for every haft process of this user.
#[async_trait]
pub trait LoginStore: Debug + Send + Sync {
    /// Returns the stored login; `None` without a login.
    async fn read(&self) -> Result<Option<Login>, String>;

    /// Returns the location of the stored login, as text; `None` without a login.
    fn place(&self) -> Option<String>;

    /// Replaces the stored login by `login`, completely or not at all.
    async fn write(&self, login: &Login) -> Result<(), String>;

    /// Removes the stored login.
    async fn remove(&self) -> Result<(), String>;

    /// Waits, for a bounded time, until no other process changes it. It is held until the value is dropped.
    async fn hold(&self) -> Result<Box<dyn Any + Send>, String>;
}

/// The reason why a login is unavailable, with a remedy for the user. Texts of other machines are marked as foreign.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct LoginError {
    what: String,
    hint: Option<String>,
    /// Whether the user can correct it by a new login.
    is_refusal: bool,
}

impl LoginError {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, is_refusal: false }
    }

    pub(super) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Returns the remedy.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns whether the stored login is no longer valid.
    pub(super) fn is_refusal(&self) -> bool {
        self.is_refusal
    }
}

impl From<AuthError> for LoginError {
    fn from(error: AuthError) -> Self {
        let is_refusal = matches!(
            error,
            AuthError::AuthorizationRequired
                | AuthError::TokenRefreshRejected(_)
                | AuthError::AuthorizationServerMismatch { .. }
        );
        let own = match &error {
            AuthError::PkceUnsupported => no_pkce(),
            AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => {
                Self::new(format!(
                    "the answer is from the authorization server {}, expected {}",
                    quoted(received_issuer),
                    quoted(expected_issuer)
                ))
            }
            AuthError::AuthorizationServerMissingIssuer { expected_issuer } => Self::new(format!(
                "the answer does not name its issuer, expected {}",
                quoted(expected_issuer)
            )),
            AuthError::RegistrationFailed(why) => {
                Self::new(format!("haft cannot register a client there: {}", quoted(why))).with_hint(
                    "register a client there by hand, and write its `client_id` to `[mcp_servers.oauth]` of \
                     the server's entry",
                )
            }
            AuthError::DiscoveryRequestFailed { url, source } => {
                let why = shortened(format!("{source}: {}", chain(source.as_ref())));
                Self::new(format!("`{url}` cannot be read: {}", foreign(&why)))
            }
            other => Self::new(quoted(&other.to_string())),
        };
        Self { is_refusal, ..own }
    }
}

/// Returns the error for missing PKCE, which MCP requires ("Authorization Code Protection").
fn no_pkce() -> LoginError {
    LoginError::new(
        "its authorization server does not announce PKCE with S256; without PKCE an intercepted code would \
         be enough to log in",
    )
}

/// Returns the error for metadata that their issuer publishes elsewhere.
fn misplaced(metadata: &AuthorizationMetadata) -> LoginError {
    let issuer = metadata.issuer.as_deref().unwrap_or("nobody");
    LoginError::new(format!(
        "its metadata belongs to the authorization server {}, whose metadata has another URL",
        quoted(issuer)
    ))
}

fn quoted(text: &str) -> String {
    foreign(&shortened(text.to_owned())).to_string()
}
