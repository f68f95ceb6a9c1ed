//! Prompts and resources of plugins, for clients. Each is a call through the toolbox, as one of a tool is.

use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams};
use serde_json::json;

use super::call::Answered;
use super::{Answer, Handler, bounded_text};
use crate::server::conversation::Requester;
use crate::server::listing;
use crate::server::snapshot::ToolSnapshot;
use haft_core::call::ToolResult;
use haft_core::tool::Entry;

/// What the error of a call begins with whose arguments are wrong.
const WRONG: &str = "invalid arguments: ";

impl Handler {
    /// Gets a prompt.
    pub(super) async fn get(&self, request: GetPromptRequestParams, requester: Requester) -> Answer {
        let snapshot = self.shared.snapshots.complete().await;
        let Some((entry, prompt)) = snapshot.offers().prompt(snapshot.toolbox(), &request.name) else {
            let name = bounded_text(&request.name);
            return Err(ErrorData::invalid_params(format!("unknown prompt `{name}`"), None));
        };
        let GetPromptRequestParams { arguments, input_responses, request_state, .. } = request;
        let mut call = CallToolRequestParams::new(entry.def().name.clone());
        (call.arguments, call.input_responses, call.request_state) =
            (arguments, input_responses, request_state);
        match self.offered(&snapshot, entry, call, &requester).await? {
            Answered::Question(question) => Ok(question.into()),
            Answered::Result(result) => {
                let description = prompt.description.clone();
                succeeded(result)
                    .and_then(|result| listing::prompt_result(result, description))
                    .map(Into::into)
            }
        }
    }

    /// Reads a resource.
    pub(super) async fn read(&self, request: ReadResourceRequestParams, requester: Requester) -> Answer {
        let snapshot = self.shared.snapshots.complete().await;
        let Some((entry, listed)) = listing::resource(snapshot.toolbox(), &request.uri) else {
            let uri = bounded_text(&request.uri);
            return Err(ErrorData::resource_not_found(format!("there is no resource `{uri}`"), None));
        };
        let ReadResourceRequestParams { uri, input_responses, request_state, .. } = request;
        let mut call = CallToolRequestParams::new(entry.def().name.clone());
        call.arguments = json!({ "uri": uri }).as_object().cloned();
        (call.input_responses, call.request_state) = (input_responses, request_state);
        match self.offered(&snapshot, entry, call, &requester).await? {
            Answered::Question(question) => Ok(question.into()),
            Answered::Result(result) => {
                succeeded(result).and_then(|result| listing::read_result(result, uri, listed)).map(Into::into)
            }
        }
    }

    /// Runs a call of `entry`.
    async fn offered(
        &self,
        snapshot: &ToolSnapshot,
        entry: &Entry,
        call: CallToolRequestParams,
        requester: &Requester,
    ) -> Result<Answered, ErrorData> {
        let _permit = self.permit().map_err(|refusal| ErrorData::internal_error(refusal, None))?;
        self.run(snapshot, (Some(entry), entry.def().name.clone()), call, requester).await
    }
}

/// The result, unless it is an error, which is one of the protocol here.
fn succeeded(result: ToolResult) -> Result<ToolResult, ErrorData> {
    match result.is_error {
        false => Ok(result),
        true if result.content.starts_with(WRONG) => Err(ErrorData::invalid_params(result.content, None)),
        true => Err(ErrorData::internal_error(result.content, None)),
    }
}
