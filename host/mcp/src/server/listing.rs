//! The lists of tools, prompts and resources as clients get them, and what was got or read of the last two. A tool whose
//! definition some client would refuse is repaired or left out, since many clients refuse the whole list because of one.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rmcp::ErrorData;
use rmcp::model::{
    ContentBlock, GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate, Role, Tool, ToolAnnotations,
};
use serde_json::Value;

use super::message;
use haft_core::call::{self, Hints, PromptDef, PromptMessages, ResourceDef, ToolDef, ToolResult};
use haft_core::tool::{Entry, Offer, Schema, Toolbox};

/// What clients see beside the tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClientOffers {
    prompts: Vec<Prompt>,
    /// The names of the prompts in the toolbox, in the same order.
    own: Vec<String>,
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
}

/// The tools of `toolbox` that clients see, in order, without `prefix` where their names begin
/// with it.
pub(super) fn client_tools(toolbox: &Toolbox, prefix: &str) -> Vec<Tool> {
    // What a component says of its tools was checked when it was listed, which compiles every schema.
    let tools = toolbox.entries().filter_map(|entry| client_tool(entry.def(), entry.digest().is_some()));
    let shortened = |mut tool: Tool| {
        if let Some(short) = tool.name.strip_prefix(prefix) {
            tool.name = short.to_owned().into();
        }
        tool
    };
    tools.map(shortened).collect()
}

/// A tool, or nothing where it could not be called either. `is_checked` says that its schemas can be compiled.
fn client_tool(def: &ToolDef, is_checked: bool) -> Option<Tool> {
    let Some(parameters) = object_schema(&def.parameters) else {
        tracing::warn!(tool = def.name, "tool left out: its parameters are no schema of an object");
        return None;
    };
    let mut tool = Tool::new(def.name.clone(), def.description.clone(), Arc::new(parameters));
    tool.title.clone_from(&def.title);
    tool.annotations = Some(annotations(def.hints));
    tool.output_schema = def.output.as_ref().and_then(|schema| output(schema, is_checked)).map(Arc::new);
    Some(tool)
}

/// The schema of a tool's data, where clients can check with it: they want that of an object, and
/// some know no other dialect than their own, whatever the schema says of itself.
fn output(schema: &Value, is_checked: bool) -> Option<JsonObject> {
    let mut schema = object_schema(schema).filter(|_| is_checked || Schema::compile(schema).is_ok())?;
    schema.remove("$schema");
    Some(schema)
}

fn object_schema(schema: &Value) -> Option<JsonObject> {
    let object = schema.as_object()?;
    (object.get("type").and_then(Value::as_str) == Some("object")).then(|| object.clone())
}

fn annotations(hints: Hints) -> ToolAnnotations {
    ToolAnnotations::new()
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent)
        .open_world(hints.open_world)
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

fn data<T: serde::de::DeserializeOwned>(structured: Option<Value>) -> Result<T, ErrorData> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn def(parameters: Value, output: Option<Value>) -> ToolDef {
        ToolDef { name: "t".into(), parameters, output, ..ToolDef::default() }
    }

    /// A schema that clients refuse hides no other tool.
    #[test]
    fn a_definition_that_clients_refuse_is_mended_or_left_out() {
        for bad in [json!(true), json!({}), json!({"type": "string"}), json!({"type": ["object", "null"]})] {
            assert!(client_tool(&def(bad.clone(), None), false).is_none(), "{bad}");
            let tool = client_tool(&def(json!({"type": "object"}), Some(bad)), false).unwrap();
            assert_eq!(tool.output_schema, None);
        }
    }

    /// What is not refused stays as it is, dialect, references and all.
    #[test]
    fn a_definition_is_passed_on_whole() {
        let parameters = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"a": {"type": "string"}},
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "additionalProperties": false,
        });
        let titled =
            ToolDef { title: Some("A title".into()), ..def(parameters.clone(), Some(parameters.clone())) };
        let tool = client_tool(&titled, false).unwrap();
        assert_eq!(tool.title, titled.title);
        assert_eq!(Value::Object((*tool.input_schema).clone()), parameters);
        let output = tool.output_schema.unwrap();
        assert_eq!((output.get("$schema"), output.get("$defs")), (None, parameters.get("$defs")));
    }

    #[test]
    fn hints_are_annotations() {
        let hints = Hints { read_only: true, ..Hints::default() };
        let tool = client_tool(&ToolDef { hints, ..def(json!({"type": "object"}), None) }, false).unwrap();
        assert_eq!(
            serde_json::to_value(tool.annotations).unwrap(),
            json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false})
        );
    }
}
