//! A line in the file of stored changes. Records of later versions are ignored.

use std::path::PathBuf;

use rustix::fs::RawMode;
use serde::{Deserialize, Serialize};

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Record {
    /// The following records belong to another prompt.
    Prompt,
    /// The state of a path before a call changed it.
    Before {
        path: PathBuf,
        was: State,
        /// The content of a file, in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// Why it cannot be restored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lost: Option<String>,
    },
    /// The state after the call.
    After { path: PathBuf, is: State },
    /// A call that may have changed things of which nothing is stored.
    Uncovered { what: String },
    /// Paths that a person restored to their state before the prompt of this number.
    Undone { prompt: usize, paths: Vec<PathBuf> },
    /// A record of a later version.
    #[serde(other)]
    Other,
}

/// The state of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum State {
    Absent,
    File {
        mode: RawMode,
        sha256: String,
    },
    Link {
        target: PathBuf,
    },
    Folder {
        mode: RawMode,
    },
    /// A file that is too large to be stored or compared.
    Large,
    /// A device, or an unreadable file.
    Other,
}

impl Record {
    /// The serialised form of [`Self::Prompt`].
    pub(super) const PROMPT_LINE: &str = "{\"kind\":\"prompt\"}\n";
}
