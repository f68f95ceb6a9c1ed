//! What a plugin offers to people beside its tools: prompts and resources. A call of either is a [`ToolCall`](super::ToolCall)
//! like any other; these are its definitions and what its answer looks like. Holds no behaviour.

use serde::{Deserialize, Serialize};

/// What clients are told of prompts and resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offers {
    /// Prompts, by the names that the plugin gives them.
    pub prompts: Vec<PromptDef>,
    /// Resources, by their paths within the plugin.
    pub resources: ResourceList,
}

/// A prompt that a person can choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptDef {
    /// Its name.
    pub name: String,
    /// What it is called where people choose it.
    pub title: Option<String>,
    /// What it is for.
    pub description: String,
    /// What it is filled in with.
    pub arguments: Vec<PromptArgument>,
}

/// A value that a person fills in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Whether the prompt cannot be had without it.
    pub required: bool,
}

/// What can be read of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceList {
    /// Resources.
    pub listed: Vec<ResourceDef>,
    /// Resources with parameters: their paths are templates (RFC 6570).
    pub templates: Vec<ResourceDef>,
}

/// Something that can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceDef {
    /// Where it is: a path within the plugin, or a URI where clients see it.
    pub place: String,
    /// Its name.
    pub name: String,
    /// What it is called where people choose it.
    pub title: Option<String>,
    /// What it is.
    pub description: String,
    /// Its media type, where it is known.
    pub media_type: Option<String>,
}

/// The data of an answer with the messages of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptMessages {
    /// The messages, in order.
    pub messages: Vec<PromptMessage>,
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptMessage {
    /// Whether the model says it, and not the person.
    pub by_model: bool,
    /// Its text; where it is none, the next of the answer's attachments.
    pub text: Option<String>,
}

/// The data of an answer with what a resource has in it: the answer's text or, where `is_text` is not set, its attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceContents {
    /// Its media type, where it is known.
    pub media_type: Option<String>,
    /// Whether it is text.
    pub is_text: bool,
}

impl Offers {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.prompts.is_empty() && self.resources.is_empty()
    }
}

impl ResourceList {
    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.templates.is_empty()
    }
}
