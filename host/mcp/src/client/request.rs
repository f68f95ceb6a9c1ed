//! The requests that haft sends to servers, as rmcp's types, from which rmcp's HTTP transport reads the method and
//! the name.
#![expect(deprecated, reason = "servers of all versions are subscribed to")]

use rmcp::model::{
    CallToolRequest, CancelTaskRequest, ClientRequest, CompleteRequest, GetPromptRequest, GetTaskRequest,
    JsonObject, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest, ListSkillsRequest,
    ListToolsRequest, ReadResourceRequest, SubscribeRequest, UnsubscribeRequest, UpdateTaskRequest,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ServerError;

/// Returns the request `method` with `params`.
///
/// # Errors
/// `params` are invalid for the method.
pub(super) fn request_of(method: &str, params: &JsonObject) -> Result<ClientRequest, ServerError> {
    fn read<P: DeserializeOwned>(method: &str, params: &JsonObject) -> Result<P, ServerError> {
        serde_json::from_value(Value::Object(params.clone())).map_err(|error| ServerError::Answer {
            code: -32602,
            message: format!("invalid parameters of `{method}`: {error}"),
            data: None,
        })
    }
    Ok(match method {
        "tools/call" => CallToolRequest::new(read(method, params)?).into(),
        "tools/list" => ListToolsRequest::with_param(read(method, params)?).into(),
        "prompts/list" => ListPromptsRequest::with_param(read(method, params)?).into(),
        "prompts/get" => GetPromptRequest::new(read(method, params)?).into(),
        "resources/list" => ListResourcesRequest::with_param(read(method, params)?).into(),
        "resources/templates/list" => ListResourceTemplatesRequest::with_param(read(method, params)?).into(),
        "resources/read" => ReadResourceRequest::new(read(method, params)?).into(),
        "resources/subscribe" => SubscribeRequest::new(read(method, params)?).into(),
        "resources/unsubscribe" => UnsubscribeRequest::new(read(method, params)?).into(),
        "skills/list" => ListSkillsRequest::with_param(read(method, params)?).into(),
        "tasks/get" => GetTaskRequest::new(read(method, params)?).into(),
        "tasks/update" => UpdateTaskRequest::new(read(method, params)?).into(),
        "tasks/cancel" => CancelTaskRequest::new(read(method, params)?).into(),
        "completion/complete" => CompleteRequest::new(read(method, params)?).into(),
        _ => return Err(ServerError::Protocol(format!("haft does not support `{method}`"))),
    })
}
