//! A server's tool as a [`Tool`]. Errors name the server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::answer::to_tool_result;
use super::server::Answer;
use super::{Config, RemoteTool, Server, ServerError};
use haft_core::call::{ToolCall, ToolDef, ToolResult};
use haft_core::limit::Limits;
use haft_core::tool::{Context, Keep, Tool, ToolError, clip, exposed_name};

/// What all names of servers' tools begin with.
const FAMILY: &str = "mcp";

/// How long starting a server and asking a person may take, on top of a request's own time.
const MARGIN: Duration = Duration::from_mins(15);

/// A tool of a server.
#[derive(Debug)]
pub struct ServerTool {
    def: ToolDef,
    /// As the server calls it.
    name: String,
    server: Arc<Server>,
}

impl ServerTool {
    /// The tool `tool` of `server`.
    pub fn new(server: &Arc<Server>, tool: &RemoteTool) -> Self {
        let def = ToolDef {
            name: exposed(&server.config().name, &tool.name),
            title: tool.title.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
            hints: tool.hints,
            // The server's promise, which haft cannot keep for it: its answers may lack the data, or have other.
            output: None,
        };
        Self { def, name: tool.name.clone(), server: server.clone() }
    }

    fn failed(&self, error: &ServerError) -> ToolError {
        let Config { name, max_result, .. } = self.server.config();
        let message = clip(&format!("MCP server `{name}` {error}"), *max_result, Keep::Ends);
        ToolError::ExecutionFailed(with_hints(message, &error.hints()))
    }
}

fn with_hints(text: String, hints: &[String]) -> String {
    hints.iter().fold(text, |text, hint| text + "\nhint: " + hint)
}

/// What one call of a server's tool may use. The server's own time-out ends it; this is the last
/// resort.
pub fn limits(config: &Config) -> Limits {
    Limits { time: config.timeout.saturating_add(MARGIN).min(Limits::MAX_TIME), ..Limits::default() }
}

/// What models call the tool `tool` of the server called `server`.
pub fn exposed(server: &str, tool: &str) -> String {
    exposed_name(&[FAMILY, server, tool])
}

/// Whether `name`, as a caller wrote it, can be a tool of the server called `server`.
pub fn owns(server: &str, name: &str) -> bool {
    let own = format!("{FAMILY}__{server}__");
    name.get(..own.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(&own))
}

#[async_trait]
impl Tool for ServerTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    /// The server has the rights that it was started with.
    fn has_fixed_rights(&self) -> bool {
        true
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let arguments = match &call.arguments {
            Value::Object(arguments) => arguments.clone(),
            _ => serde_json::Map::new(),
        };
        let result = self.server.call(&self.name, arguments, &call.id, context).await;
        if matches!(result, Err(ServerError::TimedOut { .. })) {
            context.notes.timed_out();
        }
        let hints = match &result {
            Ok(answer) => &answer.hints,
            Err(ServerError::Ended { hints, .. }) => hints,
            Err(_) => &Vec::new(),
        };
        if !hints.is_empty() {
            // A server has the rights that it was started with.
            context.notes.refused(Vec::new());
        }
        let Answer { value, hints } = result.map_err(|error| self.failed(&error))?;
        let result = to_tool_result(&value, self.server.config().max_result, context.whole);
        Ok(ToolResult { content: with_hints(result.content, &hints), ..result })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mc02_a_name_tells_whose_tool_it_is() {
        assert!(owns("git", "mcp__git__log") && owns("git", "MCP__Git__log"));
        assert!(!owns("git", "mcp__github__log") && !owns("git", "log") && !owns("git", "mcp__git"));
    }
}
