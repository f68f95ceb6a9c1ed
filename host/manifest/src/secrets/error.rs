//! Why a secret cannot be read: the source, the reason and a hint, never a part of the value.

use std::path::PathBuf;

use super::{MAX_SECRET, keyring};
use crate::KeyringEntry;

/// Why a secret cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The variable is not set, or empty.
    #[error("the environment variable `{0}` is not set; program.toml says that a secret is in it")]
    Unset(String),
    /// The file cannot be read.
    #[error("cannot read the secret from `{}`: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// No keyring holds the entry.
    #[error("no secret `{0}` in the keyring")]
    NotInKeyring(KeyringEntry),
    /// The kernel's keyring does not hold the entry, and the desktop's keyring is not available.
    #[error("cannot read `{entry}` from the keyring: {why}")]
    Keyring {
        /// The entry.
        entry: KeyringEntry,
        /// The cause.
        why: String,
    },
    /// The secret exists and is invalid.
    #[error("the secret in {place} {why}")]
    Unusable {
        /// The source.
        place: String,
        /// The reason.
        why: &'static str,
    },
}

impl SecretError {
    pub(super) const EMPTY: &'static str = "is empty";
    pub(super) const NOT_TEXT: &'static str = "is not valid UTF-8";
    pub(super) const TOO_LONG: &'static str = "is longer than any secret";

    /// Returns how to fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unset(name) => Some(format!(
                "set `{name}`, or name another place in program.toml: `{{ file = \"PATH\" }}` or \
                 `{{ keyring = \"SERVICE/USER\" }}`"
            )),
            Self::NotInKeyring(entry) => Some(keyring::how_to_store(entry, true)),
            Self::Keyring { entry, .. } => Some(keyring::how_to_store(entry, false)),
            Self::Unusable { why, .. } if *why == Self::TOO_LONG => {
                Some(format!("a secret has at most {} KiB", MAX_SECRET >> 10))
            }
            Self::File { .. } | Self::Unusable { .. } => None,
        }
    }
}
