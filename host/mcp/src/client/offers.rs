//! The offers of a server besides its tools: prompts, resources, resource templates and instructions to models.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use haft_core::tool::ServerResources;

/// Bytes of a resource's URI.
pub(super) const MAX_URI: usize = 2048;

/// A server's offers besides its tools, as listed, without secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerOffers {
    /// `Prompt` of the protocol.
    #[serde(default)]
    pub prompts: Vec<Value>,
    /// `Resource` of the protocol.
    #[serde(default)]
    pub resources: Vec<Value>,
    /// `ResourceTemplate` of the protocol.
    #[serde(default)]
    pub templates: Vec<Value>,
    /// Whether the server completes arguments.
    #[serde(default)]
    pub completes: bool,
    /// Whether the server reports changes of a resource.
    #[serde(default)]
    pub watches: bool,
    /// The server's instructions to models.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Omitted items, and the reasons.
    #[serde(default)]
    pub left_out: Vec<String>,
}

impl ServerOffers {
    /// Returns the resources and templates.
    pub(super) fn of_resources(&self) -> ServerResources {
        ServerResources {
            resources: self.resources.clone(),
            templates: self.templates.clone(),
            completes: self.completes,
            watches: self.watches,
        }
    }
}
