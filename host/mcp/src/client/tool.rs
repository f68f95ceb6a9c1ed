//! A server's tool as a [`Tool`], and its prompts and resources, which are called like tools, so that a tool's rules,
//! journal and limits apply. Users and clients see prompts and resources, models do not. Errors name the server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::answer::{attachments, prompt_text, to_tool_result};
use super::server::Answer;
use super::{Config, RemoteTool, Server, ServerError, ToolList};
use haft_core::call::{Hints, McpAnswer, ToolCall, ToolDef, ToolResult};
use haft_core::limit::Limits;
use haft_core::tool::{
    Context, Keep, Offer, Served, ServerResources, Subject, Tool, ToolError, clip, exposed_name,
};

/// The common prefix of all names of servers' tools.
const FAMILY: &str = "mcp";

/// Time for starting a server and asking the user, in addition to a request's own time limit.
const MARGIN: Duration = Duration::from_mins(15);

/// Maximum size in bytes of an error's additional data, as JSON.
const MAX_ERROR_DATA: usize = 64 << 10;

/// Maximum number of characters of an error's message.
const MAX_ERROR: usize = 10_000;

/// The methods that a call of a prompt may be.
const OF_PROMPTS: &[&str] = &["prompts/get", "completion/complete"];
/// The methods that a call of resources may be.
const OF_RESOURCES: &[&str] =
    &["resources/read", "resources/subscribe", "resources/unsubscribe", "completion/complete"];

/// Maximum number of bytes of the answer to one call, as JSON: the limit of clients for messages of servers.
const MAX_ANSWER: usize = 16 << 20;

/// A tool of a server.
#[derive(Debug)]
pub struct ServerTool {
    def: ToolDef,
    /// The server's name for the tool.
    name: String,
    /// The definition as the server sent it, for MCP clients.
    definition: Value,
    server: Arc<Server>,
}

impl ServerTool {
    /// Returns the tool `tool` of `listed`, which belongs to `server`. MCP clients get the definition in `listed`,
    /// because a later definition may have no agreement.
    pub fn new(server: &Arc<Server>, listed: &ToolList, tool: &RemoteTool) -> Self {
        let def = ToolDef {
            name: exposed(&server.config().name, &tool.name),
            title: tool.title.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
            hints: tool.hints,
            // The server's promise, which haft cannot keep for it: its answers may lack the data, or have other. MCP
            // clients are shown it in the server's own definition.
            output: None,
        };
        let definition = usable(listed.definition(&tool.name).cloned().unwrap_or_default(), tool);
        Self { def, name: tool.name.clone(), definition, server: server.clone() }
    }
}

/// Returns a definition without repaired or unusable parts: some clients refuse a whole list because of one schema.
fn usable(mut definition: Value, tool: &RemoteTool) -> Value {
    let Some(fields) = definition.as_object_mut() else { return Value::Null };
    let is_object = |schema: Option<&Value>| schema.is_some_and(|schema| schema["type"] == "object");
    if !tool.mended.is_empty() || !is_object(fields.get("inputSchema")) {
        fields.insert("inputSchema".to_owned(), tool.parameters.clone());
    }
    if !is_object(tool.output.as_ref()) {
        fields.remove("outputSchema");
    }
    if let Some(Value::String(description)) = fields.get_mut("description")
        && description.len() > tool.description.len()
    {
        description.clone_from(&tool.description);
    }
    definition
}

/// Converts a server's failure to an error for the caller. A JSON-RPC error is kept unmodified, for MCP clients.
fn failed(config: &Config, error: ServerError) -> Result<ToolResult, ToolError> {
    let message = clip(&format!("MCP server `{}` {error}", config.name), config.max_result, Keep::Ends);
    let failure = ToolError::ExecutionFailed(with_hints(message, &error.hints()));
    let ServerError::Answer { code, message, data } = error else { return Err(failure) };
    let data = data.filter(|data| data.to_string().len() <= MAX_ERROR_DATA);
    let message = clip(&message, MAX_ERROR, Keep::Head);
    let mcp = Some(Box::new(McpAnswer::Error { code, message, data }));
    Ok(ToolResult { mcp, ..ToolResult::error(failure.to_string()) })
}

/// Records facts for the journal about a call that ended with `result`.
fn note(result: &Result<Answer, ServerError>, context: &Context<'_>) {
    if matches!(result, Err(ServerError::TimedOut { .. })) {
        context.notes.timed_out();
    }
    let hints = match result {
        Ok(answer) => &answer.hints,
        Err(ServerError::Ended { hints, .. }) => hints,
        Err(_) => &Vec::new(),
    };
    if !hints.is_empty() {
        // A server has the rights that it was started with.
        context.notes.refused(Vec::new());
    }
}

fn with_hints(text: String, hints: &[String]) -> String {
    hints.iter().fold(text, |text, hint| text + "\nhint: " + hint)
}

/// Returns the limits of one call of a server's tool. They are the last resort: the server's own time limit normally
/// ends a call.
pub fn limits(config: &Config) -> Limits {
    Limits { time: config.timeout.saturating_add(MARGIN).min(Limits::MAX_TIME), ..Limits::default() }
}

/// Returns the name for models of the tool `tool` of the server `server`.
pub fn exposed(server: &str, tool: &str) -> String {
    exposed_name(&[FAMILY, server, tool])
}

/// Returns whether `name`, as a caller wrote it, can be a tool of the server called `server`.
pub fn owns(server: &str, name: &str) -> bool {
    let own = format!("{FAMILY}__{server}__");
    name.get(..own.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(&own))
}

#[async_trait]
impl Tool for ServerTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn served(&self) -> Option<Served<'_>> {
        let server = &self.server.config().name;
        self.definition.is_object().then_some(Served { server, definition: &self.definition })
    }

    /// Returns `true`: the server has the rights with which it was started.
    fn has_fixed_rights(&self) -> bool {
        true
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let arguments = match &call.arguments {
            Value::Object(arguments) => arguments.clone(),
            _ => Map::new(),
        };
        let params =
            [("name".to_owned(), self.name.as_str().into()), ("arguments".to_owned(), arguments.into())];
        let request = ("tools/call", params.into_iter().collect());
        let result = self.server.call(request, Some(&self.name), &call.id, context).await;
        note(&result, context);
        let config = self.server.config();
        let Answer { value, hints } = match result {
            Ok(answer) => answer,
            Err(error) => return failed(config, error),
        };
        Ok(hinted(to_tool_result(value, config.max_result, context.whole), &hints))
    }
}

/// Returns the answer with haft's own hints after it.
fn hinted(mut answer: ToolResult, hints: &[String]) -> ToolResult {
    if hints.is_empty() {
        return answer;
    }
    let block = json!({ "type": "text", "text": with_hints(String::new(), hints).trim_start() });
    if let Some(McpAnswer::Result(result)) = answer.mcp.as_deref_mut()
        && let Some(blocks) = result.get_mut("content").and_then(Value::as_array_mut)
    {
        blocks.push(block);
    }
    ToolResult { content: with_hints(answer.content, hints), ..answer }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// MC02: a tool's name shows its server.
    #[test]
    fn a_name_tells_whose_tool_it_is() {
        assert!(owns("git", "mcp__git__log") && owns("git", "MCP__Git__log"));
        assert!(!owns("git", "mcp__github__log") && !owns("git", "log") && !owns("git", "mcp__git"));
    }
}
