//! The offers of a server besides its tools: prompts, resources, resource templates and instructions to models.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use haft_core::tool::ServerResources;

/// Maximum number of bytes of a resource's URI.
pub(super) const MAX_URI: usize = 2048;

/// A server's offers besides its tools, as listed, without secrets.
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
    /// The server's instructions to models.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Omitted items, and the reasons.
    #[serde(default)]
    pub left_out: Vec<String>,
}
