//! Prompts and resources as clients get them: their lists, and what was got or read.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rmcp::ErrorData;
use rmcp::model::{
    ContentBlock, GetPromptResult, Prompt, PromptArgument, PromptMessage, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate, Role,
};

use super::message;
use haft_core::call::{self, PromptDef, PromptMessages, ResourceDef, ToolResult};
use haft_core::tool::{Entry, Offer, Toolbox};

/// What clients see beside the tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClientOffers {
    prompts: Vec<Prompt>,
    /// The names of the prompts in the toolbox, in the same order.
    own: Vec<String>,
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
}

impl ClientOffers {
    /// Those of `toolbox`, with the names of prompts without `prefix` where they begin with it. Of two with one name the
    /// first is seen.
    pub(super) fn of(toolbox: &Toolbox, prefix: &str) -> Self {
        let mut all = Self::default();
        for entry in toolbox.offers() {
            match entry.offer() {
                Some(Offer::Prompt(def)) => all.add_prompt(def, &entry.def().name, prefix),
                Some(Offer::Resources { list, .. }) => {
                    all.resources.extend(list.listed.iter().map(resource_of));
                    all.templates.extend(list.templates.iter().map(template_of));
                }
                None => {}
            }
        }
        all
    }

    fn add_prompt(&mut self, def: &PromptDef, own: &str, prefix: &str) {
        let name = def.name.strip_prefix(prefix).unwrap_or(&def.name);
        if self.prompts.iter().any(|prompt| prompt.name == name) {
            tracing::warn!(prompt = name, "prompt left out: there is one of this name");
            return;
        }
        let argument = |argument: &call::PromptArgument| {
            let call::PromptArgument { name, description, required } = argument;
            PromptArgument::new(name).with_description(description).with_required(*required)
        };
        let arguments = def.arguments.iter().map(argument).collect::<Vec<_>>();
        let mut prompt = Prompt::new(name, Some(&def.description), Some(arguments));
        prompt.title.clone_from(&def.title);
        self.prompts.push(prompt);
        self.own.push(own.to_owned());
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.prompts.is_empty() && self.resources.is_empty() && self.templates.is_empty()
    }

    pub(super) fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    pub(super) fn resources(&self) -> &[Resource] {
        &self.resources
    }

    pub(super) fn templates(&self) -> &[ResourceTemplate] {
        &self.templates
    }

    /// The prompt that clients know as `name`, in `toolbox`, of which these are.
    pub(super) fn prompt<'t>(&'t self, toolbox: &'t Toolbox, name: &str) -> Option<(&'t Entry, &'t Prompt)> {
        let (prompt, own) = self.prompts.iter().zip(&self.own).find(|(prompt, _)| prompt.name == name)?;
        Some((toolbox.find_offer(own)?, prompt))
    }
}

/// What reads the resource `uri`, and its media type as it was listed. A URI is of the plugin alone whose prefix it has.
pub(super) fn resource<'t>(toolbox: &'t Toolbox, uri: &str) -> Option<(&'t Entry, Option<&'t str>)> {
    toolbox.offers().find_map(|entry| match entry.offer() {
        Some(Offer::Resources { prefix, list }) if uri.starts_with(prefix) => {
            let listed = list.listed.iter().find(|one| one.place == uri);
            Some((entry, listed.and_then(|one| one.media_type.as_deref())))
        }
        _ => None,
    })
}

/// The messages of a prompt.
///
/// # Errors
/// They are none, which no plugin that haft has called brings about.
pub(super) fn prompt_result(
    result: ToolResult,
    description: Option<String>,
) -> Result<GetPromptResult, ErrorData> {
    let ToolResult { attachments, structured, .. } = result;
    let told: PromptMessages = data(structured)?;
    let mut attachments = attachments.into_iter().enumerate();
    let messages = told.messages.into_iter().filter_map(|message| {
        let role = if message.by_model { Role::Assistant } else { Role::User };
        let content = match message.text {
            Some(text) => ContentBlock::text(text),
            None => attachments.next().map(|(index, attachment)| message::block(attachment, index))?,
        };
        Some(PromptMessage::new(role, content))
    });
    let result = GetPromptResult::new(messages.collect());
    Ok(match description {
        Some(description) => result.with_description(description),
        None => result,
    })
}

/// What was read at `uri`, of the media type that was `listed` unless it says another.
///
/// # Errors
/// It is nothing, which no plugin that haft has called brings about.
pub(super) fn read_result(
    result: ToolResult,
    uri: String,
    listed: Option<&str>,
) -> Result<ReadResourceResult, ErrorData> {
    let ToolResult { content, mut attachments, structured, .. } = result;
    let told: call::ResourceContents = data(structured)?;
    let contents = match attachments.pop() {
        Some(attachment) if !told.is_text => {
            ResourceContents::blob(BASE64_STANDARD.encode(attachment.data), uri)
        }
        _ => ResourceContents::text(content, uri),
    };
    let contents = match told.media_type.as_deref().or(listed) {
        Some(media_type) => contents.with_mime_type(media_type),
        None => contents,
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

fn data<T: serde::de::DeserializeOwned>(structured: Option<serde_json::Value>) -> Result<T, ErrorData> {
    let read = serde_json::from_value(structured.unwrap_or_default());
    read.map_err(|_| ErrorData::internal_error("the answer is none of a prompt or resource", None))
}

fn resource_of(def: &ResourceDef) -> Resource {
    let ResourceDef { place, name, title, description, media_type } = def;
    let mut resource = Resource::new(place, name).with_description(description);
    resource.title.clone_from(title);
    resource.mime_type.clone_from(media_type);
    resource
}

fn template_of(def: &ResourceDef) -> ResourceTemplate {
    let ResourceDef { place, name, title, description, media_type } = def;
    let mut template = ResourceTemplate::new(place, name).with_description(description);
    template.title.clone_from(title);
    template.mime_type.clone_from(media_type);
    template
}
