//! Why a secret cannot be had: the place, the reason and the way out, never a part of the value.

use std::path::PathBuf;

use super::{MAX_SECRET, keyring};
use crate::KeyringEntry;

/// Why a secret cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The variable is not there, or empty.
    #[error("the environment variable `{0}` is not set; program.toml says that a secret is in it")]
    Unset(String),
    /// The file cannot be read.
    #[error("cannot read the secret from `{}`: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// No keyring holds it.
    #[error("no secret `{0}` in the keyring")]
    NotInKeyring(KeyringEntry),
    /// The kernel's keyring does not hold it, and the desktop's does not tell.
    #[error("cannot read `{entry}` from the keyring: {why}")]
    Keyring {
        /// What was looked for.
        entry: KeyringEntry,
        /// Why not.
        why: String,
    },
    /// It is there and cannot be used.
    #[error("the secret in {place} {why}")]
    Unusable {
        /// Where it is.
        place: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl SecretError {
    pub(super) const EMPTY: &'static str = "is empty";
    pub(super) const NOT_TEXT: &'static str = "is not valid UTF-8";
    pub(super) const TOO_LONG: &'static str = "is longer than any secret";

    /// What to do about it.
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
