//! A line of the file in which it is kept what tools changed. What a later version writes is passed over.

use std::path::PathBuf;

use rustix::fs::RawMode;
use serde::{Deserialize, Serialize};

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Record {
    /// What follows belongs to another prompt.
    Prompt,
    /// What was at a path before a call changed it.
    Before {
        path: PathBuf,
        was: State,
        /// The content of a file, in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// Why it cannot be had back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lost: Option<String>,
    },
    /// What was there once the call was over.
    After { path: PathBuf, is: State },
    /// A call that may have changed things of which nothing is kept.
    Uncovered { what: String },
    /// Paths that a person had put back as they were before the prompt of this number.
    Undone { prompt: usize, paths: Vec<PathBuf> },
    /// Something that a later version knows.
    #[serde(other)]
    Other,
}

/// What is at a path.
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
    /// A file that is too large to be kept or compared.
    Large,
    /// A device, or what could not be read.
    Other,
}

impl Record {
    /// [`Self::Prompt`], as it is written.
    pub(super) const PROMPT_LINE: &str = "{\"kind\":\"prompt\"}\n";
}
