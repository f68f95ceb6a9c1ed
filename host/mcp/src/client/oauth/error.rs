//! The reasons why a login fails, with a remedy for the user. Texts of other machines are marked as foreign.

use rmcp::transport::AuthError;
use rmcp::transport::auth::AuthorizationMetadata;

use crate::client::calls::shortened;
use haft_core::net::chain;
use haft_core::tool::foreign;

/// The reason why a login is unavailable.
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
pub(super) fn no_pkce() -> LoginError {
    LoginError::new(
        "its authorization server does not announce PKCE with S256; without PKCE an intercepted code would \
         be enough to log in",
    )
}

/// Returns the error for metadata that their issuer publishes elsewhere.
pub(super) fn misplaced(metadata: &AuthorizationMetadata) -> LoginError {
    let issuer = metadata.issuer.as_deref().unwrap_or("nobody");
    LoginError::new(format!(
        "its metadata belongs to the authorization server {}, whose metadata has another URL",
        quoted(issuer)
    ))
}

fn quoted(text: &str) -> String {
    foreign(&shortened(text.to_owned())).to_string()
}
