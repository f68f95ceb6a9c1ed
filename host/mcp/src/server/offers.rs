//! Prompts and resources of plugins and MCP servers as clients get them, and the contents of a plugin's prompts and
//! resources.

use std::collections::HashSet;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rmcp::ErrorData;
use rmcp::model::{
    ContentBlock, GetPromptResult, Prompt, PromptArgument, PromptMessage, ReadResourceResult,
    ResourceContents, Role,
};
use serde_json::Value;
use tokio::sync::broadcast;

use super::message;
use super::names::Names;
use haft_core::call::{self, PromptDef, PromptMessages, ResourceDef, ToolResult};
use haft_core::tool::{Entry, Offer, ServerResources, Toolbox};

/// The offers for clients besides the tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClientOffers {
    /// `Prompt`, `Resource` and `ResourceTemplate` of the protocol.
    pub(super) prompts: Vec<Value>,
    pub(super) resources: Vec<Value>,
    pub(super) templates: Vec<Value>,
    /// `Skill` of the extension for skills.
    pub(super) skills: Vec<Value>,
    /// The names of the prompts for clients and in the toolbox, in order.
    names: Vec<(String, String)>,
    /// Whether arguments of some are completed.
    pub(super) completes: bool,
    /// Whether changes of some resources are reported.
    pub(super) watches: bool,
    /// Whether an MCP server's resources can be read, which it need not list.
    reads: bool,
}

pub(super) struct Reader<'t> {
    pub(super) entry: &'t Entry,
    pub(super) of: ReaderOf<'t>,
}

/// The owner of a resource.
pub(super) enum ReaderOf<'t> {
    /// A plugin, with the listed media type; or a skill.
    Plugin(Option<&'t str>),
    /// An MCP server's, which calls it so.
    Server { server: &'t str, own: String, updates: &'t broadcast::Sender<Arc<str>> },
}

impl ClientOffers {
    /// Returns the offers of `toolbox` under `names`. Of two prompts with one name the first is used.
    pub(super) fn of(toolbox: &Toolbox, names: &Names) -> Self {
        let (mut all, mut seen) = (Self::default(), HashSet::new());
        for entry in toolbox.offers() {
            match entry.offer() {
                Some(Offer::Prompt(def)) => {
                    let name = names.of(&def.name, None);
                    all.add_prompt(&mut seen, name.clone(), entry, prompt_of(def, name));
                }
                Some(Offer::ServerPrompt { prompt, completes }) => {
                    let own = prompt.definition["name"].as_str().unwrap_or_default();
                    let own = haft_core::tool::exposed_name(&["mcp", prompt.server, own]);
                    let name = names.of(&own, Some(prompt));
                    let mut shown = names.definition(prompt.server, prompt.definition);
                    all.completes |= completes;
                    shown.insert("name".to_owned(), name.as_str().into());
                    all.add_prompt(&mut seen, name, entry, shown.into());
                }
                Some(Offer::Resources { list, .. }) => {
                    all.resources.extend(list.listed.iter().map(|def| listed(def, "uri")));
                    all.templates.extend(list.templates.iter().map(|def| listed(def, "uriTemplate")));
                }
                Some(Offer::ServerResources { server, listed, .. }) => {
                    let shown = |own: &Value| Value::Object(names.definition(server, own));
                    (all.completes, all.watches) =
                        (all.completes || listed.completes, all.watches || listed.watches);
                    all.reads = true;
                    all.resources.extend(listed.resources.iter().map(shown));
                    all.templates.extend(listed.templates.iter().map(shown));
                }
                Some(Offer::Skill { entry, resource }) => {
                    all.resources.push(resource.clone());
                    all.skills.push(entry.clone());
                }
                None => {}
            }
        }
        all
    }

    fn add_prompt(&mut self, seen: &mut HashSet<String>, name: String, entry: &Entry, shown: Value) {
        if !seen.insert(name.clone()) {
            tracing::warn!(prompt = name, "prompt left out: another prompt has this name");
            return;
        }
        self.prompts.push(shown);
        self.names.push((name, entry.def().name.clone()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.prompts.is_empty() && self.resources.is_empty() && self.templates.is_empty() && !self.reads
    }

    /// Returns the prompt that clients know as `name`, in the `toolbox` of these offers.
    pub(super) fn prompt<'t>(&self, toolbox: &'t Toolbox, name: &str) -> Option<&'t Entry> {
        let (_, own) = self.names.iter().find(|(shown, _)| shown == name)?;
        toolbox.find_offer(own)
    }
}

/// Returns the reader of the resource `uri`. The prefix of a URI names its plugin or server. A URI without a prefix
/// belongs to the only server whose URIs are unchanged, or to the only one that lists it or has it as a user interface: an
/// interface has the URIs of its server.
pub(super) fn reader<'t>(toolbox: &'t Toolbox, names: &Names, uri: &str) -> Option<Reader<'t>> {
    let of_plugin = |entry: &'t Entry| match entry.offer()? {
        Offer::Resources { prefix, list } if uri.starts_with(prefix) => {
            let listed = list.listed.iter().find(|one| one.place == uri);
            let of = ReaderOf::Plugin(listed.and_then(|one| one.media_type.as_deref()));
            Some(Reader { entry, of })
        }
        Offer::Skill { entry: skill, .. } => {
            let mut files = skill["resources"].as_array()?.iter();
            files.any(|file| file["uri"] == uri).then_some(Reader { entry, of: ReaderOf::Plugin(None) })
        }
        _ => None,
    };
    let of_server = |entry: &'t Entry| match entry.offer()? {
        Offer::ServerResources { server, updates, .. } => {
            let own = names.own_uri(server, uri)?;
            Some(Reader { entry, of: ReaderOf::Server { server, own, updates } })
        }
        _ => None,
    };
    let listed = |entry: &'t Entry| match entry.offer()? {
        Offer::ServerResources { server, listed, updates } => {
            let of = ReaderOf::Server { server, own: uri.to_owned(), updates };
            let tools = toolbox.entries().filter_map(Entry::served).filter(|tool| tool.server == server);
            let interfaces: Vec<String> =
                tools.filter_map(|tool| tool.interface().map(str::to_owned)).collect();
            // Only interfaces have the URIs of their server.
            let is_interface = interfaces.iter().any(|own| own == uri);
            let is_own = is_interface || (!interfaces.is_empty() && lists(listed, uri));
            is_own.then_some(Reader { entry, of })
        }
        _ => None,
    };
    let own = || {
        let mut all = toolbox.offers().filter_map(listed);
        all.next().filter(|_| all.next().is_none())
    };
    toolbox.offers().find_map(of_plugin).or_else(|| toolbox.offers().find_map(of_server)).or_else(own)
}

/// Returns whether a server has listed the resource, or a template that begins like it.
fn lists(listed: &ServerResources, uri: &str) -> bool {
    let begins = |template: &Value| {
        let template = template["uriTemplate"].as_str().unwrap_or_default();
        template.split_once('{').is_some_and(|(fixed, _)| fixed.contains(':') && uri.starts_with(fixed))
    };
    listed.resources.iter().any(|resource| resource["uri"] == uri) || listed.templates.iter().any(begins)
}

/// Returns the messages of a prompt of a plugin.
///
/// # Errors
/// The data are not messages, which no called plugin can cause.
pub(super) fn prompt_result(result: ToolResult, description: &str) -> Result<GetPromptResult, ErrorData> {
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
    Ok(GetPromptResult::new(messages.collect()).with_description(description))
}

/// Returns the content of a plugin's resource at `uri`, with the `listed` media type unless the content has
/// another.
///
/// # Errors
/// The data are not a resource's, which no called plugin can cause.
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

fn data<T: serde::de::DeserializeOwned>(structured: Option<Value>) -> Result<T, ErrorData> {
    let read = serde_json::from_value(structured.unwrap_or_default());
    read.map_err(|_| ErrorData::internal_error("the answer is not a prompt or resource", None))
}

fn prompt_of(def: &PromptDef, name: String) -> Value {
    let argument = |argument: &call::PromptArgument| {
        let call::PromptArgument { name, description, required } = argument;
        PromptArgument::new(name).with_description(description).with_required(*required)
    };
    let arguments = def.arguments.iter().map(argument).collect::<Vec<_>>();
    let mut prompt = Prompt::new(name, Some(&def.description), Some(arguments));
    prompt.title.clone_from(&def.title);
    serde_json::to_value(prompt).unwrap_or_default()
}

/// Returns a `Resource`, whose place has the key `uri`, or a `ResourceTemplate`.
fn listed(def: &ResourceDef, key: &str) -> Value {
    let ResourceDef { place, name, title, description, media_type } = def;
    let known = [
        (key, Some(place)),
        ("name", Some(name)),
        ("title", title.as_ref()),
        ("description", Some(description)),
        ("mimeType", media_type.as_ref()),
    ];
    let fields = known.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?.as_str().into())));
    Value::Object(fields.collect())
}
