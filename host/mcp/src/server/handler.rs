//! Answers a client's requests: lists tools and runs calls, of both eras, on standard streams and over HTTP. Every call
//! goes through [`Toolbox::dispatch_to`](haft_core::tool::Toolbox::dispatch_to); no request changes what a tool may do.

#![expect(
    deprecated,
    reason = "logging is what clients of today show; later revisions ask for it call by call"
)]

mod call;
mod listen;
mod offer;
mod protocol;

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{
    CancelTaskMethod, ClientRequest, CompleteRequestMethod, CompleteResult, ConstString, DiscoverResult,
    ErrorCode, GetTaskMethod, Implementation, InitializeRequestParams, InitializeResult,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
    LoggingLevel, PaginatedRequestParams, PingRequestMethod, ProtocolVersion, ServerConfig, ServerResult,
    SetLevelRequestMethod, UpdateTaskMethod,
};

pub(super) use self::protocol::agreed_version;
use self::protocol::{Era, bounded_text, custom, server_config, tasks_are_missing};
use super::calls::RunningCalls;
use super::progress::NotificationFilter;
use super::requester::Requester;
use super::snapshot::{ToolSnapshot, ToolSnapshots};
use super::tasks::Tasks;
use haft_callers::Caller;
use haft_core::report::shortened;
use haft_core::sync::Lock;
use haft_core::tool::{Approvals, Client, Widening, inline};
use haft_core::trace::Wire;

/// Characters of a client's name and version in the journal.
const MAX_CLIENT: usize = 100;

/// What a request is answered with.
pub(super) type Answer = Result<ServerResult, ErrorData>;

/// What all clients of a server share. Clones share everything.
#[derive(Clone, Debug)]
pub(super) struct ServerShared {
    pub(super) snapshots: ToolSnapshots,
    pub(super) calls: RunningCalls,
    /// Identifies the callers that share approvals: those with the same token.
    caller: Arc<str>,
    /// Who calls, where callers are told apart.
    known: Option<Caller>,
    /// How clients are connected.
    over: Wire,
}

/// One client, or one request of a client that opens no session.
#[derive(Debug)]
pub(super) struct Handler {
    pub(super) shared: ServerShared,
    /// The least level of log messages that the client gets; `info` unless it sets one.
    level: Lock<LoggingLevel>,
    /// Identifies the client, where it has a session or connection of its own.
    client: Client,
    /// The name that the client gave of itself as it opened its session.
    name: Lock<Option<Arc<str>>>,
    /// The rights that its person has given for the session.
    widening: Widening,
    /// What its person has allowed for the session.
    approvals: Approvals,
}

impl ServerShared {
    /// For clients who are all `caller`, connected by `over`.
    pub(super) fn new(snapshots: ToolSnapshots, caller: impl Into<Arc<str>>, over: Wire) -> Self {
        Self { snapshots, calls: RunningCalls::default(), caller: caller.into(), known: None, over }
    }

    /// For clients who are `caller`: its tools, its quota, and its name in the journal.
    pub(super) fn of_caller(&self, caller: Caller) -> Self {
        let (snapshots, calls) = (self.snapshots.of_caller(caller.name()), self.calls.clone());
        Self { snapshots, calls, caller: caller.id().clone(), known: Some(caller), over: self.over }
    }

    /// Identifies the callers that share approvals and sessions.
    pub(super) fn caller(&self) -> &Arc<str> {
        &self.caller
    }

    /// A handler for a new client.
    pub(super) fn handler(&self) -> Handler {
        // A client elsewhere gives nothing of this machine away.
        let widening = match self.over {
            Wire::Streams => self.snapshots.widening().of_another_session(),
            Wire::Http => Widening::default(),
        };
        Handler {
            shared: self.clone(),
            level: Lock::new(LoggingLevel::Info),
            client: Client::another(),
            name: Lock::default(),
            widening,
            approvals: Approvals::default(),
        }
    }
}

impl Handler {
    /// Answers a request. May be polled first on a thread that runs calls inline: what may not run there leaves it.
    ///
    /// # Errors
    /// The error of JSON-RPC that the request is answered with.
    pub(super) async fn answer(&self, request: ClientRequest, requester: Requester) -> Answer {
        let era = Era::of(&request, &requester)?;
        let answer = match request {
            ClientRequest::CallToolRequest(request) => {
                self.call_or_begin_task(request.params, requester).await
            }
            ClientRequest::PingRequest(_) if era.has_session => Ok(ServerResult::empty(())),
            ClientRequest::PingRequest(_) => Err(ErrorData::method_not_found::<PingRequestMethod>()),
            // On the heap: the future of every call would have room for it.
            request => Box::pin(self.answer_other(request, requester, era)).await,
        };
        era.dressed(answer)
    }

    /// Answers what is neither a call of a tool nor a ping.
    async fn answer_other(&self, request: ClientRequest, requester: Requester, era: Era) -> Answer {
        inline::leave().await;
        match request {
            ClientRequest::InitializeRequest(request) => Ok(self.initialize(&request.params).into()),
            ClientRequest::DiscoverRequest(_) => {
                let versions = ProtocolVersion::KNOWN_VERSIONS.to_vec();
                Ok(DiscoverResult::from_server_info(versions, self.config()).into())
            }
            ClientRequest::SetLevelRequest(request) => {
                era.is_earlier::<SetLevelRequestMethod>()?;
                *self.level.lock() = request.params.level;
                Ok(ServerResult::empty(()))
            }
            ClientRequest::ListToolsRequest(request) => {
                one_page(request.params)?;
                let tools = self.shared.snapshots.complete().await.tools().to_vec();
                Ok(ListToolsResult::with_all_items(tools).into())
            }
            ClientRequest::GetPromptRequest(request) => {
                self.while_open(self.get(request.params, requester)).await
            }
            ClientRequest::ReadResourceRequest(request) => {
                self.while_open(self.read(request.params, requester)).await
            }
            ClientRequest::ListPromptsRequest(request) => {
                let snapshot = self.offers::<ListPromptsRequestMethod>(request.params, era).await?;
                Ok(ListPromptsResult::with_all_items(snapshot.offers().prompts().to_vec()).into())
            }
            ClientRequest::ListResourcesRequest(request) => {
                let snapshot = self.offers::<ListResourcesRequestMethod>(request.params, era).await?;
                Ok(ListResourcesResult::with_all_items(snapshot.offers().resources().to_vec()).into())
            }
            ClientRequest::ListResourceTemplatesRequest(request) => {
                let snapshot = self.offers::<ListResourceTemplatesRequestMethod>(request.params, era).await?;
                Ok(ListResourceTemplatesResult::with_all_items(snapshot.offers().templates().to_vec()).into())
            }
            ClientRequest::CompleteRequest(_) => {
                era.is_earlier::<CompleteRequestMethod>().map(|()| CompleteResult::default().into())
            }
            ClientRequest::SubscriptionsListenRequest(request) if !era.has_session => {
                self.listen(request.params.notifications, requester).await
            }
            ClientRequest::GetTaskRequest(request) => {
                let tasks = self.tasks::<GetTaskMethod>(&requester)?;
                tasks.get(&self.shared.caller, &request.params.task_id).await.map(Into::into)
            }
            ClientRequest::UpdateTaskRequest(request) => {
                let tasks = self.tasks::<UpdateTaskMethod>(&requester)?;
                tasks.update(&self.shared.caller, &request.params.task_id).await.map(ServerResult::task_ack)
            }
            ClientRequest::CancelTaskRequest(request) => {
                let tasks = self.tasks::<CancelTaskMethod>(&requester)?;
                tasks.cancel(&self.shared.caller, &request.params.task_id).await.map(ServerResult::task_ack)
            }
            ClientRequest::CustomRequest(request) => {
                Err(custom(&request.method, era, self.shared.snapshots.tasks().is_some()))
            }
            request => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method().to_owned(), None)),
        }
    }

    /// What the server says of itself.
    pub(super) fn config(&self) -> ServerConfig {
        let snapshots = &self.shared.snapshots;
        server_config(&snapshots.now(), snapshots.tasks().is_some())
    }

    /// Opens the client's session.
    pub(super) fn initialize(&self, request: &InitializeRequestParams) -> InitializeResult {
        *self.name.lock() = Some(named(&request.client_info));
        let mut config = self.config();
        config.protocol_version = agreed_version(&request.protocol_version);
        config
    }

    /// What is offered beside tools. Many clients ask for it where there is nothing, and take an error for a broken server;
    /// later revisions are strict.
    async fn offers<M: ConstString>(
        &self,
        request: Option<PaginatedRequestParams>,
        era: Era,
    ) -> Result<Arc<ToolSnapshot>, ErrorData> {
        one_page(request)?;
        let snapshot = self.shared.snapshots.complete().await;
        if snapshot.offers().is_empty() {
            era.is_earlier::<M>()?;
        }
        Ok(snapshot)
    }

    /// The tasks, where replicas share them and the client knows them.
    fn tasks<M: ConstString>(&self, requester: &Requester) -> Result<&Tasks, ErrorData> {
        let tasks = self.shared.snapshots.tasks().ok_or_else(ErrorData::method_not_found::<M>)?;
        if requester.takes_tasks() { Ok(tasks) } else { Err(tasks_are_missing()) }
    }

    /// The notifications that the client gets of a call. Clients of later revisions say so with each call.
    fn notification_filter(&self, requester: &Requester) -> NotificationFilter {
        let own = *self.level.lock();
        let log = if requester.is_sessionless() { requester.meta.log_level() } else { Some(own) };
        NotificationFilter { progress: requester.meta.get_progress_token(), log }
    }

    /// A call under way, which ends when haft does.
    async fn while_open<T>(&self, call: impl Future<Output = Result<T, ErrorData>>) -> Result<T, ErrorData> {
        let _running = self.shared.calls.begin();
        tokio::select! {
            biased;
            () = self.shared.calls.closed() => Err(ErrorData::internal_error("haft is ending: the call was stopped", None)),
            answer = call => answer,
        }
    }

    /// Identifies the calling client. One without a session is identified by its name and version.
    fn client(&self, requester: &Requester) -> Client {
        match requester.meta.client_info().filter(|_| requester.is_sessionless()) {
            // Of two callers each may say what it likes of itself.
            Some(info) => Client::named(&[&*self.shared.caller, &info.name, &info.version].join("\0")),
            None => self.client,
        }
    }

    /// The calling client by the name that it gives of itself.
    fn client_name(&self, requester: &Requester) -> Option<Arc<str>> {
        let own = || requester.meta.client_info().as_ref().map(named);
        if requester.is_sessionless() { own() } else { self.name.lock().clone() }
    }
}

/// A client by what it says of itself.
fn named(client: &Implementation) -> Arc<str> {
    shortened(&format!("{} {}", client.name, client.version), MAX_CLIENT).into()
}

/// Every list has one page.
fn one_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    let cursor = request.and_then(|request| request.cursor).filter(|cursor| !cursor.is_empty());
    cursor.map_or(Ok(()), |cursor| {
        let message = format!("unknown cursor `{}`: the list has one page", bounded_text(&cursor));
        Err(ErrorData::invalid_params(message, None))
    })
}
