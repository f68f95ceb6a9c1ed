//! What a server has beside its tools: prompts, resources, templates and its words to models.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use haft_core::tool::ServerResources;

/// Bytes of a resource's URI.
pub(super) const MAX_URI: usize = 2048;

/// What a server has beside its tools, as it listed it, without secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerOffers {
    /// `Prompt` of the protocol.
    #[serde(default)]
    pub prompts: Vec<Value>,
    /// The resources and templates.
    #[serde(flatten)]
    pub of_resources: ServerResources,
    /// `Skill` of the extension for skills.
    #[serde(default)]
    pub skills: Vec<Value>,
    /// What it says to models of itself.
    #[serde(default)]
    pub instructions: Option<String>,
    /// What was left out, and why.
    #[serde(default)]
    pub left_out: Vec<String>,
}
