//! The two formats of configuration files.

use super::tree::{Node, SyntaxError};
use super::{json, toml};

/// A format of configuration files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// JSON with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
}

impl Syntax {
    /// The format of a text: one of JSON begins with a brace or a comment, one of TOML with neither.
    pub(crate) fn of(text: &str) -> Self {
        if text.trim_start().starts_with(['{', '/']) { Self::Json } else { Self::Toml }
    }

    /// The tree of `text`; `None` where there is none.
    pub(crate) fn parse(self, text: &str) -> Result<Option<Node>, SyntaxError> {
        match self {
            Self::Json => json::parse(text),
            Self::Toml => toml::parse(text).map(Some),
        }
    }

    /// `word` as a text of this format.
    pub(crate) fn quoted(self, word: &str) -> String {
        match self {
            Self::Json => serde_json::Value::from(word).to_string(),
            Self::Toml => toml_edit::Value::from(word).to_string(),
        }
    }

    /// A key with its value.
    pub(crate) fn pair(self, key: &str, value: &str) -> String {
        match self {
            Self::Json => format!("\"{key}\": {value}"),
            Self::Toml => format!("{key} = {value}"),
        }
    }
}
