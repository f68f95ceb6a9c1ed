//! Logins at servers over HTTP, as MCP's authorization specification (2026-07-28) has them: OAuth 2.1 with discovery
//! (RFC 9728, RFC 8414, OIDC), PKCE with S256 (RFC 7636), resource indicators (RFC 8707), issuers of answers
//! (RFC 9207) and revocation (RFC 7009). The protocol is rmcp's; which addresses it may reach, where a login is kept and
//! when a person is asked are decided here.
//!
//! Only [`Account::sign_in`] leads to a person. A server that is used renews what is there, in silence, and says
//! `haft mcp login` where that is not enough. A token goes to the server that it was got for, and to nothing else.

mod account;
mod error;
mod exchange;
mod login;
mod metadata;
mod reach;
mod redirect;
mod revocation;
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

/// How haft shows an authorization server who it is, and what it asks for there.
#[derive(Clone, Debug, Default)]
pub struct OAuthSettings {
    /// The client that was registered there by hand. It comes before the other two ways.
    pub client_id: Option<String>,
    /// Its secret: one value, where it has one.
    pub client_secret: Option<Arc<dyn Values>>,
    /// The scopes to ask for; empty for those that the server says it needs.
    pub scopes: Vec<String>,
    /// Where haft's client ID metadata document is, for servers that take such. Without it, and where they do not, haft
    /// is registered at each login (RFC 7591).
    pub client_metadata_url: Option<String>,
    /// The port of 127.0.0.1 that the browser is sent back to; `None` for any free one.
    pub callback_port: Option<u16>,
}

impl OAuthSettings {
    /// Equal for equal settings; holds no secret, but where one is kept.
    pub(super) fn identity(&self) -> String {
        let Self { client_id, client_secret, scopes, client_metadata_url, callback_port: _ } = self;
        let secret = client_secret.as_ref().map(|secret| secret.identity());
        format!("{client_id:?} {secret:?} {scopes:?} {client_metadata_url:?}")
    }
}

/// Where the login at one server is kept, for every haft process of this user.
#[async_trait]
pub trait LoginStore: Debug + Send + Sync {
    /// What is kept; `None` where nobody logged in.
    async fn read(&self) -> Result<Option<Login>, String>;

    /// Where it is kept, in words; `None` where nobody logged in.
    fn place(&self) -> Option<String>;

    /// Keeps `login` instead of what is there, whole or not at all.
    async fn write(&self, login: &Login) -> Result<(), String>;

    /// Removes what is there.
    async fn remove(&self) -> Result<(), String>;

    /// Waits, for a bounded time, until no other process changes it. It is held until the value is dropped.
    async fn hold(&self) -> Result<Box<dyn Any + Send>, String>;
}
