//! The reasons why a registry has nothing to install, each with its hint.

use crate::SecretField;
use crate::download::DownloadError;

/// Reasons why a server of a registry cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The text is no name.
    #[error(
        "expected `mcp:NAMESPACE/NAME` or `mcp:NAMESPACE/NAME@VERSION`, as the registry calls the server"
    )]
    Name,
    /// The registry does not answer.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// The answer is not of the form of the API and the schema.
    #[error("the registry's answer cannot be parsed: {0}")]
    Unreadable(String),
    /// The registry has no such server or version.
    #[error("the registry has no `{name}`")]
    Unknown {
        /// The name, perhaps with a version.
        name: String,
        /// Similar names.
        near: Vec<String>,
    },
    /// The entry has nothing that haft installs.
    #[error("{0}")]
    Unsupported(String),
    /// No installable form, with a remedy.
    #[error("{what}")]
    Elsewhere {
        /// The form.
        what: String,
        /// The remedy.
        way_out: String,
    },
    /// Values are missing.
    #[error("it needs {}", .0.join(", "))]
    Missing(Vec<String>),
    /// The server requires secrets, which the user has to enter.
    #[error("it needs secrets")]
    Secrets(Vec<SecretField>),
    /// A value is not usable. It is not part of the text: it may be a secret.
    #[error("the value of `{key}` is not usable: {why}")]
    Value {
        /// The setting.
        key: String,
        /// The expected form.
        why: String,
    },
    /// A setting that the entry does not have.
    #[error("it has no setting `{key}`; its settings are {known}")]
    Setting {
        /// The setting.
        key: String,
        /// The existing settings.
        known: String,
    },
}

impl RegistryError {
    /// Returns a hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { near, .. } if near.is_empty() => {
                Some("write names as in the registry, such as `io.github.owner/server`".to_owned())
            }
            Self::Unknown { near, .. } => Some(format!("it has `{}`", near.join("`, `"))),
            Self::Elsewhere { way_out, .. } => Some(way_out.clone()),
            Self::Missing(_) | Self::Setting { .. } => Some("set a value with `--set KEY=VALUE`".to_owned()),
            _ => None,
        }
    }
}
