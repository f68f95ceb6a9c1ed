//! The kinds of installable entries, and their keys in program.toml.

use serde::{Deserialize, Serialize};

/// A table of program.toml with installable entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `[[packages]]`.
    Package,
    /// `[[plugins]]`.
    Plugin,
}

impl Kind {
    /// Returns the key of the table.
    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::Package => "packages",
            Self::Plugin => "plugins",
        }
    }

    /// Returns the key of an entry that holds its source.
    pub(crate) fn source_key(self) -> &'static str {
        match self {
            Self::Package => "source",
            Self::Plugin => "component",
        }
    }
}
