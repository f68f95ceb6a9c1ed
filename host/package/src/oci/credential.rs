//! A credential for a registry, and its source. It is never printed.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};

/// A secret that is sent to a registry.
#[derive(Clone)]
pub(super) enum Secret {
    /// A user name and its password.
    Password {
        /// The user name.
        name: String,
        /// The password.
        password: SecretString,
    },
    /// A token that is exchanged at the token server for an access token.
    IdentityToken(SecretString),
}

/// A secret and its source.
#[derive(Clone)]
pub(super) struct Credential {
    pub(super) secret: Secret,
    /// The source, for messages.
    pub(super) place: String,
}

impl Credential {
    /// Returns the user name and the source, for messages.
    pub(super) fn describe(&self) -> String {
        match &self.secret {
            Secret::Password { name, .. } => format!("`{name}` from {}", self.place),
            Secret::IdentityToken(_) => format!("the token from {}", self.place),
        }
    }

    #[cfg(test)]
    pub(super) fn from_password(name: &str, password: &str, place: &str) -> Self {
        let secret = Secret::Password { name: name.to_owned(), password: password.into() };
        Self { secret, place: place.to_owned() }
    }

    /// Returns every text that must be redacted.
    pub(super) fn secrets(&self) -> Vec<SecretString> {
        match &self.secret {
            Secret::Password { name, password } => {
                let pair = format!("{name}:{}", password.expose_secret());
                vec![password.clone(), STANDARD.encode(pair).into()]
            }
            Secret::IdentityToken(token) => vec![token.clone()],
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("place", &self.place).finish_non_exhaustive()
    }
}
