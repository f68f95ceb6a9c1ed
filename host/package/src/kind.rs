//! What an entry of program.toml installs, and the words that program.toml has for it.

use serde::{Deserialize, Serialize};

/// A table of program.toml whose entries are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `[[packages]]`.
    Package,
    /// `[[plugins]]`.
    Plugin,
}

impl Kind {
    /// The key of program.toml.
    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::Package => "packages",
            Self::Plugin => "plugins",
        }
    }

    /// The key of an entry that says where it comes from.
    pub(crate) fn source_key(self) -> &'static str {
        match self {
            Self::Package => "source",
            Self::Plugin => "component",
        }
    }
}
