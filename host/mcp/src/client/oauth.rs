//! Logins at servers over HTTP, by MCP's authorization specification (2026-07-28): OAuth 2.1 with discovery (RFC
//! 9728, RFC 8414, OIDC), PKCE with S256 (RFC 7636), resource indicators (RFC 8707), issuer identification (RFC
//! 9207) and revocation (RFC 7009). rmcp implements the protocol; haft decides which addresses are contacted, where
//! a login is stored and when the user is prompted.
//!
//! Only [`Account::sign_in`] prompts the user. A server in use renews its tokens silently, and names
//! `haft mcp login` if that fails. A token is sent only to the server for which it was issued.

mod account;
mod enterprise;
mod error;
mod exchange;
mod login;
mod metadata;
mod reach;
mod redirect;
mod revocation;
mod service;
mod sign_in;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use super::Values;

pub use self::account::Account;
pub use self::error::LoginError;
pub use self::login::Login;
pub use self::revocation::Revoked;
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

    /// Returns whether haft logs in without a person.
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
