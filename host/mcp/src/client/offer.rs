//! A server's prompt, or its resources, called like a tool, so that a tool's rules, journal and limits apply. Users
//! and clients see it, models do not.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::answer::{attachments, prompt_text};
use super::server::Answer;
use super::tool::{failed, note};
use super::{Config, Server, ToolList};
use haft_core::call::{Hints, McpAnswer, ToolCall, ToolDef, ToolResult};
use haft_core::tool::{Context, Keep, Offer, Served, ServerResources, Subject, Tool, ToolError, clip};

/// The methods that a call of a prompt may be.
const OF_PROMPTS: &[&str] = &["prompts/get", "completion/complete"];
/// The methods that a call of resources may be.
const OF_RESOURCES: &[&str] =
    &["resources/read", "resources/subscribe", "resources/unsubscribe", "completion/complete"];

/// Maximum number of bytes of the answer to one call, as JSON: the limit of clients for messages of servers.
const MAX_ANSWER: usize = 16 << 20;

/// A prompt of a server, or its resources.
#[derive(Debug)]
pub struct ServerOffer {
    def: ToolDef,
    shown: Shown,
    server: Arc<Server>,
}

/// The definition for clients.
#[derive(Debug)]
enum Shown {
    Prompt { definition: Value, completes: bool },
    Resources(ServerResources),
}

impl ServerOffer {
    /// Returns all offers of `listed`, which belongs to `server`, each with its name for the patterns of `tools`.
    pub fn all(server: &Arc<Server>, listed: &ToolList) -> Vec<(String, Self)> {
        let offers = &listed.offers;
        let prompts = offers.prompts.iter().filter_map(|prompt| {
            let own = format!("prompts/{}", prompt["name"].as_str()?);
            Some((
                own,
                Shown::Prompt { definition: prompt.clone(), completes: offers.of_resources.completes },
            ))
        });
        let resources = offers.of_resources.clone();
        // A server need not list its user interfaces (MCP Apps, "Resource Discovery").
        let server_name = server.config().name.as_str();
        let has_interface = |definition| Served { server: server_name, definition }.interface().is_some();
        let has_resources = !resources.resources.is_empty()
            || !resources.templates.is_empty()
            || listed.sent.iter().any(has_interface);
        let resources = has_resources.then(|| ("resources/read".to_owned(), Shown::Resources(resources)));
        let offer = |(own, shown): (String, Shown)| {
            let def = definition(&server.config().name, &own, &shown);
            (own, Self { def, shown, server: server.clone() })
        };
        prompts.chain(resources).map(offer).collect()
    }

    /// Returns the method and the parameters of a call.
    fn request(&self, arguments: &Value) -> Result<(&'static str, Map<String, Value>), ToolError> {
        let methods = match self.shown {
            Shown::Prompt { .. } => OF_PROMPTS,
            Shown::Resources(_) => OF_RESOURCES,
        };
        let method = methods.iter().find(|method| arguments["method"] == **method);
        let params = arguments["params"].as_object();
        let known = method.zip(params);
        known.map(|(method, params)| (*method, params.clone())).ok_or_else(|| {
            let expected = methods.join("`, `");
            ToolError::InvalidArguments(format!("expected `method`, one of `{expected}`, and `params`"))
        })
    }
}

/// Returns the definition that checks a call, and names it in rules and in the journal.
fn definition(server: &str, own: &str, shown: &Shown) -> ToolDef {
    let description = match shown {
        Shown::Prompt { definition, .. } => definition["description"].as_str().unwrap_or_default().to_owned(),
        Shown::Resources(_) => format!("Reads the resources of MCP server `{server}`"),
    };
    ToolDef {
        name: format!("mcp__{server}__{own}"),
        title: None,
        description,
        parameters: json!({
            "type": "object",
            "properties": { "method": { "type": "string" }, "params": { "type": "object" } },
            "required": ["method", "params"],
        }),
        hints: Hints { read_only: true, open_world: true, ..Hints::default() },
        output: None,
    }
}

#[async_trait]
impl Tool for ServerOffer {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn offer(&self) -> Option<Offer<'_>> {
        let server = self.server.config().name.as_str();
        Some(match &self.shown {
            Shown::Prompt { definition, completes } => {
                Offer::ServerPrompt { prompt: Served { server, definition }, completes: *completes }
            }
            Shown::Resources(listed) => {
                Offer::ServerResources { server, listed, updates: self.server.updates() }
            }
        })
    }

    fn subject(&self, arguments: &Value) -> Subject {
        Subject::arguments(&arguments["params"])
    }

    /// Returns `true`: the server has the rights with which it was started.
    fn has_fixed_rights(&self) -> bool {
        true
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let request = self.request(&call.arguments)?;
        let result = self.server.call(request, None, &call.id, context).await;
        note(&result, context);
        let config = self.server.config();
        match result {
            Ok(Answer { value, .. }) => bounded(value, config),
            Err(error) => failed(config, error),
        }
    }
}

/// Returns the answer as an MCP client gets it, and as text for a conversation the messages of a prompt.
fn bounded(mut value: Value, config: &Config) -> Result<ToolResult, ToolError> {
    let files = attachments(&mut value);
    let text = value.to_string();
    if text.len() > MAX_ANSWER {
        let (name, most) = (&config.name, MAX_ANSWER >> 20);
        let why = format!("the answer of MCP server `{name}` has more than {most} MiB");
        return Err(ToolError::ExecutionFailed(why));
    }
    let (prompt, files) = prompt_text(&value, files);
    let content = clip(&prompt.unwrap_or(text), config.max_result, Keep::Ends);
    let mcp = Some(Box::new(McpAnswer::Result(value)));
    Ok(ToolResult { attachments: files, mcp, ..ToolResult::success(content) })
}
