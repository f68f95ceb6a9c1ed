//! Answers a client's requests: lists tools and runs calls, for both protocol eras, on standard streams and over
//! HTTP. Every call goes through [`Toolbox::dispatch_to`](haft_core::tool::Toolbox::dispatch_to); no request
//! changes the rights of a tool.

#![expect(
    deprecated,
    reason = "logging is what clients of today show; later revisions ask for it call by call"
)]

mod call;
mod era;
mod news;
mod offers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ClientRequest, CustomResult, DiscoverResult, ErrorCode, ExtensionCapabilities,
    Implementation, InitializeRequestParams, InitializeResult, JsonObject, LoggingLevel,
    PaginatedRequestParams, PingRequestMethod, ProtocolVersion, SKILLS_EXTENSION_ID, ServerCapabilities,
    ServerConfig, ServerResult, SetLevelRequestMethod, SubscribeRequestMethod, TASKS_EXTENSION_ID,
    UnsubscribeRequestMethod,
};
use serde_json::{Value, json};

use self::era::Era;
pub(super) use self::news::ToolNews;
use self::news::{Watched, Watchers};
use super::conversation::{Agreed, Answer, Requester, RunningCalls};
use super::snapshot::{PATIENCE, ToolSnapshot, ToolSnapshots};
use super::tasks::Tasks;
use haft_callers::Caller;
use haft_core::report::shortened;
use haft_core::sync::Lock;
use haft_core::tool::{Approvals, Client, Keep, Widening, clip, inline};
use haft_core::trace::Wire;

/// Maximum number of characters of a client's name and version in the journal.
const MAX_CLIENT: usize = 100;

/// Maximum number of characters of a client's word that an error repeats.
const MAX_SHOWN: usize = 200;

/// Time limit of the wait for new servers while a session opens.
const OPENING: Duration = Duration::from_secs(3);

/// The state that all clients of a server share. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct ServerShared {
    pub(super) snapshots: ToolSnapshots,
    pub(super) calls: RunningCalls,
    watchers: Watchers,
    caller: Calling,
    /// The transport of the clients.
    over: Wire,
}

/// The caller.
#[derive(Clone, Debug)]
enum Calling {
    /// Clients without separate identities, such as those with one token, under this id.
    All(Arc<str>),
    /// An identified caller.
    One(Caller),
}

/// A client, or one request of a client that opens no session.
#[derive(Debug)]
pub(super) struct Handler {
    pub(super) shared: ServerShared,
    /// The least level of log messages that the client gets; `info` unless it sets one.
    level: Lock<LoggingLevel>,
    /// Identifies the client, if it has its own session or connection.
    client: Client,
    /// The name that the client gave of itself as it opened its session.
    name: Lock<Option<Arc<str>>>,
    /// The rights that the client's user has given for the session.
    widening: Widening,
    /// The user's approvals for the session.
    approvals: Approvals,
    /// The resources that the client of a session watches.
    watched: Watched,
    /// The time when the client opened its session.
    opened: Lock<Option<Instant>>,
}

impl ServerShared {
    /// Creates the state for clients that are all `caller`, connected by `over`.
    pub(super) fn new(snapshots: ToolSnapshots, caller: impl Into<Arc<str>>, over: Wire) -> Self {
        let (calls, watchers) = (RunningCalls::default(), Watchers::default());
        Self { snapshots, calls, watchers, caller: Calling::All(caller.into()), over }
    }

    /// Returns the state for clients that are `caller`: its tools, its quota, and its name in the journal.
    pub(super) fn of_caller(&self, caller: Caller) -> Self {
        let snapshots = self.snapshots.of_caller(caller.name());
        Self { snapshots, caller: Calling::One(caller), ..self.clone() }
    }

    /// Identifies the callers that share approvals and sessions.
    pub(super) fn caller(&self) -> &Arc<str> {
        match &self.caller {
            Calling::All(id) => id,
            Calling::One(caller) => caller.id(),
        }
    }

    fn known(&self) -> Option<&Caller> {
        match &self.caller {
            Calling::All(_) => None,
            Calling::One(caller) => Some(caller),
        }
    }

    pub(super) fn handler(&self) -> Handler {
        // A client elsewhere gives nothing of this machine away.
        let widening = match self.over {
            Wire::Streams => self.snapshots.widening.of_another_session(),
            Wire::Http => Widening::default(),
        };
        Handler {
            shared: self.clone(),
            level: Lock::new(LoggingLevel::Info),
            client: Client::another(),
            name: Lock::default(),
            widening,
            approvals: Approvals::default(),
            watched: Watched::default(),
            opened: Lock::default(),
        }
    }
}

impl Handler {
    /// Answers a request. May be polled first on a thread that runs calls inline; work that may not run there
    /// leaves the thread.
    ///
    /// # Errors
    /// The JSON-RPC error in the answer.
    pub(super) async fn answer(&self, request: ClientRequest, requester: Requester) -> Answer {
        let era = Era::of(&request, &requester)?;
        let answer = match request {
            ClientRequest::CallToolRequest(request) => {
                self.call_in_turns(request.params, requester, era).await
            }
            ClientRequest::PingRequest(_) if era.has_session => Ok(ServerResult::empty(())),
            ClientRequest::PingRequest(_) => Err(ErrorData::method_not_found::<PingRequestMethod>()),
            // Boxed: otherwise the future of every call would have its size.
            request => Box::pin(self.answer_other(request, requester, era)).await,
        };
        era.dressed(answer)
    }

    /// Answers requests other than tool calls and pings.
    async fn answer_other(&self, request: ClientRequest, requester: Requester, era: Era) -> Answer {
        inline::leave().await;
        match request {
            ClientRequest::DiscoverRequest(_) => {
                let versions = ProtocolVersion::KNOWN_VERSIONS.to_vec();
                let mut config = self.config();
                config.capabilities.extensions.get_or_insert_default().extend(tasks_extension());
                Ok(DiscoverResult::from_server_info(versions, config).into())
            }
            ClientRequest::SetLevelRequest(request) => {
                era.is_earlier::<SetLevelRequestMethod>()?;
                *self.level.lock() = request.params.level;
                Ok(ServerResult::empty(()))
            }
            ClientRequest::ListToolsRequest(request) => {
                let snapshot = self.one_page(request.params).await?;
                let tools: Vec<_> = snapshot.tools.iter().map(|tool| &tool.shown).collect();
                Ok(raw(json!({ "tools": tools })))
            }
            ClientRequest::GetPromptRequest(request) => self.get_in_turns(request.params, requester).await,
            ClientRequest::ReadResourceRequest(request) => {
                self.read_in_turns(request.params, requester).await
            }
            ClientRequest::ListPromptsRequest(request) => {
                let snapshot = self.one_page(request.params).await?;
                Ok(raw(json!({ "prompts": snapshot.offers.prompts })))
            }
            ClientRequest::ListResourcesRequest(request) => {
                let snapshot = self.one_page(request.params).await?;
                Ok(raw(json!({ "resources": snapshot.offers.resources })))
            }
            ClientRequest::ListResourceTemplatesRequest(request) => {
                let snapshot = self.one_page(request.params).await?;
                Ok(raw(json!({ "resourceTemplates": snapshot.offers.templates })))
            }
            ClientRequest::ListSkillsRequest(request) => self.list_skills(request.params).await,
            ClientRequest::GetSkillRequest(request) => self.get_skill(&request.params.uri).await,
            ClientRequest::ReadResourceDirectoryRequest(request) => self.folder(&request.params.uri).await,
            ClientRequest::CompleteRequest(request) => {
                self.while_open(self.complete(request.params, requester)).await
            }
            ClientRequest::SubscribeRequest(request) => {
                era.is_earlier::<SubscribeRequestMethod>()?;
                self.while_open(self.subscribe(&request.params.uri, &requester)).await
            }
            ClientRequest::UnsubscribeRequest(request) => {
                era.is_earlier::<UnsubscribeRequestMethod>()?;
                self.while_open(self.unsubscribe(&request.params.uri, &requester)).await
            }
            ClientRequest::SubscriptionsListenRequest(request) if !era.has_session => {
                self.listen(request.params.notifications, requester).await
            }
            ClientRequest::CustomRequest(request) => Err(era.unparsed(&request.method)),
            request if era.is_later => self.answer_for_task(request, &requester).await,
            request => Err(unknown_method(&request)),
        }
    }

    async fn answer_for_task(&self, request: ClientRequest, requester: &Requester) -> Answer {
        match request {
            ClientRequest::GetTaskRequest(request) => {
                let tasks = self.tasks(requester)?;
                tasks.get(self.shared.caller(), &request.params.task_id).await.map(Into::into)
            }
            ClientRequest::UpdateTaskRequest(request) => {
                let tasks = self.tasks(requester)?;
                let (id, answers) = (&request.params.task_id, request.params.input_responses);
                tasks.update(self.shared.caller(), id, answers).await.map(ServerResult::task_ack)
            }
            ClientRequest::CancelTaskRequest(request) => {
                let tasks = self.tasks(requester)?;
                tasks.cancel(self.shared.caller(), &request.params.task_id).await.map(ServerResult::task_ack)
            }
            request => Err(unknown_method(&request)),
        }
    }

    /// Returns the server's capabilities, name and instructions to models.
    fn config(&self) -> ServerConfig {
        let snapshot = self.shared.snapshots.now();
        let mut capabilities = ServerCapabilities::default();
        capabilities.logging = Some(JsonObject::new());
        capabilities.tools.get_or_insert_default().list_changed = Some(true);
        // Without offers clients need not ask. Unlisted servers may have some.
        let (offers, is_complete) = (&snapshot.offers, snapshot.is_complete);
        if !offers.is_empty() || !is_complete {
            capabilities.prompts.get_or_insert_default().list_changed = Some(true);
            let resources = capabilities.resources.get_or_insert_default();
            resources.list_changed = Some(true);
            resources.subscribe = (offers.watches || !is_complete).then_some(true);
            capabilities.completions = (offers.completes || !is_complete).then(JsonObject::new);
        }
        let of_skills = || JsonObject::from_iter([("directoryRead".to_owned(), true.into())]);
        if !offers.skills.is_empty() {
            capabilities.extensions = Some([(SKILLS_EXTENSION_ID.to_owned(), of_skills())].into());
        }
        let mut own = Implementation::new("haft", env!("CARGO_PKG_VERSION"));
        own.title.clone_from(&snapshot.info.title);
        ServerConfig::new(capabilities).with_server_info(own).with_instructions(snapshot.instructions())
    }

    /// Returns the time limit of the wait for the lists of plugins and servers. Together with the opening of the
    /// session it is at most the time that a client waits for the start of a server.
    fn patience(&self) -> Duration {
        let since = self.opened.lock().map(|opened| opened.elapsed());
        since.and_then(|since| PATIENCE.checked_sub(since)).unwrap_or(PATIENCE)
    }

    /// Waits briefly for servers that are starting: their instructions to models are sent only at the start of a
    /// session.
    pub(super) async fn settle(&self) {
        *self.opened.lock() = Some(Instant::now());
        if self.shared.snapshots.now().info.awaits_servers {
            self.shared.snapshots.complete_within(OPENING).await;
        }
    }

    /// Opens the client's session; returns the agreement.
    pub(super) fn open(&self, request: &InitializeRequestParams) -> (InitializeResult, Agreed) {
        *self.name.lock() = Some(named(&request.client_info));
        let (version, mut config) = (agreed_version(&request.protocol_version), self.config());
        config.protocol_version = version.clone();
        (config, Agreed { version, elicitation: request.capabilities.elicitation.clone() })
    }

    /// Returns the snapshot for a list, which has one page: a cursor is refused. Clients also request lists from servers
    /// without offers, and take an error for a broken server; and offers announced while servers were starting may turn
    /// out to be absent.
    async fn one_page(
        &self,
        request: Option<PaginatedRequestParams>,
    ) -> Result<Arc<ToolSnapshot>, ErrorData> {
        let cursor = request.and_then(|request| request.cursor).filter(|cursor| !cursor.is_empty());
        if let Some(cursor) = cursor {
            let message = format!("unknown cursor `{}`: the list has one page", bounded_text(&cursor));
            return Err(ErrorData::invalid_params(message, None));
        }
        Ok(self.shared.snapshots.complete_within(self.patience()).await)
    }

    /// Returns the tasks, if the client declares support for tasks.
    fn tasks(&self, requester: &Requester) -> Result<&Tasks, ErrorData> {
        if requester.takes_tasks() { Ok(&self.shared.snapshots.tasks) } else { Err(tasks_are_missing()) }
    }

    /// Runs a call until its end or the end of haft.
    async fn while_open<T>(&self, call: impl Future<Output = Result<T, ErrorData>>) -> Result<T, ErrorData> {
        let _running = self.shared.calls.running.token();
        tokio::select! {
            biased;
            () = self.shared.calls.closing.cancelled() => Err(ErrorData::internal_error("haft is shutting down: the \
                call was stopped", None)),
            answer = call => answer,
        }
    }

    /// Identifies the calling client. A client without a session is identified by its name and version.
    fn client(&self, requester: &Requester) -> Client {
        match requester.meta.client_info().filter(|_| requester.is_sessionless()) {
            // Two callers may use clients with one name.
            Some(info) => Client::named(&[&**self.shared.caller(), &info.name, &info.version].join("\0")),
            None => self.client,
        }
    }

    /// Returns the calling client by the name that it gives of itself.
    fn client_name(&self, requester: &Requester) -> Option<Arc<str>> {
        let own = || requester.meta.client_info().as_ref().map(named);
        if requester.is_sessionless() { own() } else { self.name.lock().clone() }
    }
}

fn unknown_method(request: &ClientRequest) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method().to_owned(), None)
}

/// Returns a result that is sent unmodified.
fn raw(result: Value) -> ServerResult {
    CustomResult::new(result).into()
}

/// Returns the id of a client from its description of itself.
fn named(client: &Implementation) -> Arc<str> {
    shortened(&format!("{} {}", client.name, client.version), MAX_CLIENT).into()
}

/// Returns the session revision for a client that requests `asked`: `asked` if it has sessions, else the last such.
fn agreed_version(asked: &ProtocolVersion) -> ProtocolVersion {
    let is_spoken = asked.has_initialize() && ProtocolVersion::KNOWN_VERSIONS.contains(asked);
    if is_spoken { asked.clone() } else { ProtocolVersion::LATEST_WITH_INITIALIZE }
}

fn tasks_are_missing() -> ErrorData {
    let mut needed = ClientCapabilities::default();
    needed.extensions = Some(tasks_extension());
    ErrorData::missing_required_client_capability(needed)
}

fn tasks_extension() -> ExtensionCapabilities {
    [(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())].into()
}

/// Returns a client's text, cut for an error message.
fn bounded_text(word: &str) -> String {
    clip(word, MAX_SHOWN, Keep::Head)
}
