//! The outcomes of attempts, as the host judges them.

use serde::{Deserialize, Serialize};

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "how", rename_all = "lowercase")]
pub enum Outcome {
    /// The attempt was stopped; with the reason.
    Held(String),
    /// The attempt succeeded, in a way that the layers in use are known not to prevent.
    Gap(String),
    /// The attempt succeeded, although the layers in use promise to prevent it.
    Escaped(String),
    /// The attempt could not be made here; with the reason.
    Untried(String),
}
