//! A prompt of a plugin, or its resources: called like a tool, and offered to people and not to models.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::component::offered::{self, PATH, PROMPTS, READ};
use crate::denials::GrantPlace;
use crate::plugin::Plugin;
use crate::tool::PluginTool;
use haft_core::call::{PromptDef, ResourceDef, ResourceList, ToolCall, ToolDef, ToolResult};
use haft_core::grant::Grant;
use haft_core::tool::{Context, Offer, Preparation, Subject, Tool, ToolError, exposed_name};

/// A prompt of a plugin, or its resources.
pub struct PluginOffer {
    tool: PluginTool,
    own: ToolDef,
    shown: Shown,
}

enum Shown {
    Prompt(PromptDef),
    Resources { prefix: String, list: ResourceList },
}

impl PluginOffer {
    /// Returns all offers of `plugin` for a program that calls it `name`.
    pub fn all(plugin: &Plugin, name: &str, place: &GrantPlace) -> Vec<Self> {
        let offers = plugin.offers();
        let offer = |own: ToolDef, shown: Shown| {
            let tool = PluginTool::new(plugin, &own, Self::exposed_name(name, &own.name), place.clone());
            Self { tool, own, shown }
        };
        let prompts = offers.prompts.iter().map(|prompt| {
            let shown = PromptDef { name: exposed_name(&[name, &prompt.name]), ..prompt.clone() };
            offer(offered::filling_in(prompt), Shown::Prompt(shown))
        });
        let resources = (!offers.resources.is_empty()).then(|| {
            let prefix = offered::prefix(name);
            let list = seen(&prefix, &offers.resources);
            offer(offered::reading(name, &offers.resources), Shown::Resources { prefix, list })
        });
        prompts.chain(resources).collect()
    }

    /// Returns the exposed name of a tool, a prompt or the resources with the original name `own`, of the plugin
    /// `plugin`. No tool has the name of a prompt or of resources.
    pub fn exposed_name(plugin: &str, own: &str) -> String {
        let is_offer = own.starts_with(PROMPTS) || own == READ;
        if is_offer { format!("{plugin}__{own}") } else { exposed_name(&[plugin, own]) }
    }

    /// Returns the definition that consent covers, under the plugin's own name.
    pub fn own(&self) -> &ToolDef {
        &self.own
    }

    /// Returns the arguments as the component gets them: of resources the path behind what haft puts before it.
    fn own_arguments(&self, arguments: &Value) -> Value {
        let Shown::Resources { prefix, .. } = &self.shown else { return arguments.clone() };
        let uri = arguments.get("uri").and_then(Value::as_str).unwrap_or_default();
        json!({ PATH: uri.strip_prefix(prefix.as_str()).unwrap_or_default() })
    }
}

#[async_trait]
impl Tool for PluginOffer {
    fn def(&self) -> &ToolDef {
        self.tool.def()
    }

    fn offer(&self) -> Option<Offer<'_>> {
        Some(match &self.shown {
            Shown::Prompt(prompt) => Offer::Prompt(prompt),
            Shown::Resources { prefix, list } => Offer::Resources { prefix, list },
        })
    }

    fn subject(&self, arguments: &Value) -> Subject {
        self.tool.subject(arguments)
    }

    fn may_have_effects(&self, grant: &Grant) -> bool {
        self.tool.may_have_effects(grant)
    }

    fn preparation(&self) -> Option<Preparation<'_>> {
        self.tool.preparation()
    }

    fn digest(&self) -> Option<&str> {
        self.tool.digest()
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let call = ToolCall { arguments: self.own_arguments(&call.arguments), ..call.clone() };
        self.tool.call(&call, context).await
    }
}

fn seen(prefix: &str, resources: &ResourceList) -> ResourceList {
    let seen = |one: &ResourceDef| ResourceDef { place: format!("{prefix}{}", one.place), ..one.clone() };
    ResourceList {
        listed: resources.listed.iter().map(seen).collect(),
        templates: resources.templates.iter().map(seen).collect(),
    }
}
