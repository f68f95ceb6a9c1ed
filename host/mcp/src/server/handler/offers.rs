//! Prompts and resources for clients. Getting a prompt, reading a resource, completing an argument, and watching
//! a resource of an MCP server are calls through the toolbox, like calls of tools.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CompleteRequestParams, DIRECTORY_MIME_TYPE, ErrorCode, GetPromptRequestParams,
    InputResponses, PaginatedRequestParams, ReadResourceRequestParams, Reference, SKILL_MD, ServerResult,
};
use serde_json::{Map, Value, json};

use super::call::{Answered, from_server};
use super::news::Watched;
use super::{Answer, Handler, bounded_text, raw};
use crate::server::conversation::Requester;
use crate::server::offers::{self, Reader, ReaderOf};
use crate::server::snapshot::ToolSnapshot;
use haft_core::call::ToolResult;
use haft_core::encoding::percent_decoded;
use haft_core::tool::{Entry, Offer};

/// The prefix of the error about a call's arguments.
const WRONG: &str = "invalid arguments: ";

/// The maximum size in bytes of a page of skills, as JSON, unless one skill is larger.
const MAX_PAGE: usize = 256 << 10;

/// The answers to questions in a request.
type Brought = (Option<InputResponses>, Option<String>);

impl Handler {
    pub(super) async fn get(&self, request: GetPromptRequestParams, requester: Requester) -> Answer {
        let snapshot = self.shared.snapshots.complete().await;
        let GetPromptRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let entry = snapshot.offers.prompt(&snapshot.toolbox, &name).ok_or_else(|| no_prompt(&name))?;
        let brought = (input_responses, request_state);
        match entry.offer() {
            Some(Offer::ServerPrompt { prompt, .. }) => {
                let mut params = Map::from_iter([("name".to_owned(), own_name(prompt.definition))]);
                params.extend(arguments.map(|arguments| ("arguments".to_owned(), arguments.into())));
                let asked = (prompt.server, "prompts/get", params.into());
                self.ask_server(&snapshot, entry, asked, brought, &requester).await
            }
            Some(Offer::Prompt(prompt)) => {
                let arguments = Value::Object(arguments.unwrap_or_default());
                match self.offered(&snapshot, entry, arguments, brought, &requester).await? {
                    Answered::Question(question) => Ok(question.into()),
                    Answered::Result(result) => succeeded(result)
                        .and_then(|result| offers::prompt_result(result, &prompt.description))
                        .map(Into::into),
                }
            }
            _ => Err(no_prompt(&name)),
        }
    }

    pub(super) async fn read(&self, request: ReadResourceRequestParams, requester: Requester) -> Answer {
        let snapshot = self.shared.snapshots.complete().await;
        let ReadResourceRequestParams { uri, input_responses, request_state, .. } = request;
        let brought = (input_responses, request_state);
        let reader = reader(&snapshot, &uri)?;
        match reader.of {
            ReaderOf::Server { server, own, .. } => {
                let asked = (server, "resources/read", json!({ "uri": own }));
                self.ask_server(&snapshot, reader.entry, asked, brought, &requester).await
            }
            ReaderOf::Plugin(listed) => {
                let arguments = json!({ "uri": uri });
                match self.offered(&snapshot, reader.entry, arguments, brought, &requester).await? {
                    Answered::Question(question) => Ok(question.into()),
                    Answered::Result(result) => succeeded(result)
                        .and_then(|result| offers::read_result(result, uri, listed))
                        .map(Into::into),
                }
            }
        }
    }

    pub(super) async fn list_skills(&self, request: Option<PaginatedRequestParams>) -> Answer {
        let snapshot = self.shared.snapshots.complete_within(self.patience()).await;
        let skills = &snapshot.offers.skills;
        let cursor = request.and_then(|request| request.cursor).filter(|cursor| !cursor.is_empty());
        let first = cursor.as_ref().map_or(Some(0), |cursor| cursor.parse().ok());
        let rest = first.and_then(|first: usize| skills.get(first..)).ok_or_else(|| {
            let cursor = bounded_text(&cursor.unwrap_or_default());
            ErrorData::invalid_params(format!("unknown cursor `{cursor}`"), None)
        })?;
        let mut size = 0;
        let fits = |skill: &&Value| {
            let is_first = size == 0;
            size += skill.to_string().len();
            is_first || size <= MAX_PAGE
        };
        let page: Vec<&Value> = rest.iter().take_while(fits).collect();
        let next = skills.len() - rest.len() + page.len();
        let mut answer = json!({ "skills": page });
        if let (Value::Object(answer), true) = (&mut answer, next < skills.len()) {
            answer.insert("nextCursor".to_owned(), next.to_string().into());
        }
        Ok(raw(answer))
    }

    pub(super) async fn get_skill(&self, uri: &str) -> Answer {
        let snapshot = self.shared.snapshots.complete_within(self.patience()).await;
        let skill = snapshot.offers.skills.iter().find(|skill| skill["uri"] == uri);
        let skill = skill.ok_or_else(|| {
            ErrorData::invalid_params(format!("there is no skill `{}`", bounded_text(uri)), None)
        })?;
        Ok(raw(json!({ "skill": skill })))
    }

    /// Returns the direct children of a folder of a skill on one page: a skill has a bounded number of files.
    pub(super) async fn folder(&self, uri: &str) -> Answer {
        let snapshot = self.shared.snapshots.complete_within(self.patience()).await;
        let folder = format!("{uri}/");
        let is_around = |skill: &&Value| {
            let own = skill["uri"].as_str().and_then(|own| own.strip_suffix(SKILL_MD));
            own.is_some_and(|own| folder.starts_with(own))
        };
        let skill = snapshot.offers.skills.iter().find(is_around);
        let files = skill.and_then(|skill| skill["resources"].as_array()).into_iter().flatten();
        let inner = files.filter_map(|file| file["uri"].as_str()?.strip_prefix(&folder));
        // Files are listed in order, so that the files of one folder are adjacent.
        let mut children: Vec<Value> = inner
            .map(|path| match path.split_once('/') {
                Some((name, _)) => json!({
                    "uri": format!("{folder}{name}"), "name": percent_decoded(name), "mimeType": DIRECTORY_MIME_TYPE,
                }),
                None => json!({ "uri": format!("{folder}{path}"), "name": percent_decoded(path) }),
            })
            .collect();
        children.dedup();
        if children.is_empty() {
            let why = format!("there is no folder `{}` of a skill", bounded_text(uri));
            return Err(ErrorData::invalid_params(why, None));
        }
        Ok(raw(json!({ "resources": children })))
    }

    /// Completes an argument of a prompt or a parameter of a template of an MCP server; for other offers
    /// returns no completions.
    pub(super) async fn complete(&self, request: CompleteRequestParams, requester: Requester) -> Answer {
        let snapshot = self.shared.snapshots.complete().await;
        let (entry, server, key, own) = match &request.r#ref {
            Reference::Prompt(prompt) => {
                let name = &prompt.name;
                let entry = snapshot.offers.prompt(&snapshot.toolbox, name);
                let entry = entry.ok_or_else(|| no_prompt(name))?;
                let Some(Offer::ServerPrompt { prompt, completes: true }) = entry.offer() else {
                    return Ok(nothing());
                };
                (entry, prompt.server, "name", own_name(prompt.definition))
            }
            Reference::Resource(resource) => {
                let uri = &resource.uri;
                let reader = reader(&snapshot, uri)?;
                let ReaderOf::Server { server, own, .. } = reader.of else { return Ok(nothing()) };
                (reader.entry, server, "uri", own.into())
            }
            _ => return Ok(nothing()),
        };
        let mut reference = json!(request.r#ref);
        if let Value::Object(reference) = &mut reference {
            reference.insert(key.to_owned(), own);
        }
        let mut params = json!({ "ref": reference, "argument": request.argument });
        if let (Value::Object(params), Some(context)) = (&mut params, &request.context) {
            params.insert("context".to_owned(), json!(context));
        }
        let asked = (server, "completion/complete", params);
        self.ask_server(&snapshot, entry, asked, (None, None), &requester).await
    }

    /// Watches a resource for a client with a session.
    pub(super) async fn subscribe(&self, uri: &str, requester: &Requester) -> Answer {
        self.watch(&self.watched, uri, requester).await.map(|()| ServerResult::empty(()))
    }

    /// Ends the watch of a resource.
    pub(super) async fn unsubscribe(&self, uri: &str, requester: &Requester) -> Answer {
        self.watched.remove(uri);
        let snapshot = self.shared.snapshots.now();
        let reader = reader(&snapshot, uri)?;
        let ReaderOf::Server { server, own, .. } = reader.of else { return Ok(ServerResult::empty(())) };
        // Other clients of this process would miss the resource; the second request restores it for those that
        // began to watch meanwhile.
        for method in ["resources/unsubscribe", "resources/subscribe"] {
            if self.shared.watchers.has(server, &own) == (method == "resources/unsubscribe") {
                break;
            }
            let asked = (server, method, json!({ "uri": own }));
            Box::pin(self.ask_server(&snapshot, reader.entry, asked, (None, None), requester)).await?;
        }
        Ok(ServerResult::empty(()))
    }

    pub(super) async fn watch(
        &self,
        watched: &Watched,
        uri: &str,
        requester: &Requester,
    ) -> Result<(), ErrorData> {
        let snapshot = self.shared.snapshots.complete().await;
        let reader = reader(&snapshot, uri)?;
        let ReaderOf::Server { server, own, updates } = reader.of else {
            return Err(ErrorData::invalid_params("resources of plugins do not support subscriptions", None));
        };
        watched
            .add(uri.to_owned(), (server, own.clone()), updates, &self.shared.watchers)
            .map_err(|why| ErrorData::invalid_request(why, None))?;
        let asked = (server, "resources/subscribe", json!({ "uri": own }));
        let answer = self.ask_server(&snapshot, reader.entry, asked, (None, None), requester).await;
        answer.map(drop).inspect_err(|_| watched.remove(uri))
    }

    /// Requests an answer of an MCP server by a call of `entry`.
    async fn ask_server(
        &self,
        snapshot: &Arc<ToolSnapshot>,
        entry: &Entry,
        (server, method, params): (&str, &str, Value),
        brought: Brought,
        requester: &Requester,
    ) -> Answer {
        let arguments = json!({ "method": method, "params": params });
        match self.offered(snapshot, entry, arguments, brought, requester).await? {
            Answered::Question(question) => Ok(question.into()),
            Answered::Result(mut result) => {
                if let Some(answer) = from_server(&snapshot.names, server, &mut result) {
                    return answer.map(raw);
                }
                succeeded(result)?;
                Err(ErrorData::internal_error("the server gave no answer", None))
            }
        }
    }

    async fn offered(
        &self,
        snapshot: &ToolSnapshot,
        entry: &Entry,
        arguments: Value,
        (input_responses, request_state): Brought,
        requester: &Requester,
    ) -> Result<Answered, ErrorData> {
        let _permit = self.permit().map_err(|refusal| ErrorData::internal_error(refusal, None))?;
        let mut call = CallToolRequestParams::new(entry.def().name.clone());
        call.arguments = arguments.as_object().cloned();
        (call.input_responses, call.request_state) = (input_responses, request_state);
        self.run(snapshot, (Some(entry), entry.def().name.clone()), call, requester).await
    }
}

fn nothing() -> ServerResult {
    rmcp::model::CompleteResult::default().into()
}

fn no_prompt(name: &str) -> ErrorData {
    ErrorData::invalid_params(format!("unknown prompt `{}`", bounded_text(name)), None)
}

fn reader<'s>(snapshot: &'s ToolSnapshot, uri: &str) -> Result<Reader<'s>, ErrorData> {
    offers::reader(&snapshot.toolbox, &snapshot.names, uri).ok_or_else(|| {
        let data = json!({ "uri": bounded_text(uri) });
        let why = format!("unknown resource `{}`", bounded_text(uri));
        ErrorData::new(ErrorCode::RESOURCE_NOT_FOUND, why, Some(data))
    })
}

/// Returns the result, or a protocol error for a failed one.
fn succeeded(result: ToolResult) -> Result<ToolResult, ErrorData> {
    match result.is_error {
        false => Ok(result),
        true if result.content.starts_with(WRONG) => Err(ErrorData::invalid_params(result.content, None)),
        true => Err(ErrorData::internal_error(result.content, None)),
    }
}

/// Returns the name that the server gives a prompt itself.
fn own_name(definition: &Value) -> Value {
    definition.get("name").cloned().unwrap_or_default()
}
