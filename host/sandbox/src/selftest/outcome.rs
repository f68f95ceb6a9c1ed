//! What comes of attempts, as the host judges it.

use serde::{Deserialize, Serialize};

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "how", rename_all = "lowercase")]
pub enum Outcome {
    /// It was stopped, and how.
    Held(String),
    /// It got out, and how; the layers in use are known not to keep this.
    Gap(String),
    /// It got out, and how, though the layers in use promise to keep it.
    Escaped(String),
    /// It could not be made here, and why.
    Untried(String),
}
