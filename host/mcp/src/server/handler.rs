//! Handles a client's requests: lists tools and runs calls. Every call goes through
//! [`Toolbox::dispatch`](haft_core::tool::Toolbox::dispatch); no request changes what a tool may do.

#![expect(
    deprecated,
    reason = "logging is what clients of today show; later revisions ask for it call by call"
)]

mod call;
mod offer;
mod protocol;
mod task_calls;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskMethod, CancelTaskParams, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams,
    GetPromptResponse, GetTaskMethod, GetTaskParams, GetTaskResult, Implementation, InitializeRequestParams,
    InitializeResult, JsonObject, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, LoggingLevel, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, RequestId, ServerConfig, SetLevelRequestMethod,
    SetLevelRequestParams, SubscriptionFilter, Tool, UpdateTaskMethod, UpdateTaskParams,
};
use rmcp::service::{
    NotificationContext, Peer, RequestContext, SubscriptionContext, SubscriptionSendError, SubscriptionSink,
};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::protocol::{
    LATER_METHODS, METHODS, TASK_METHODS, bounded_text, is_sessionless, none, server_config,
};
use super::begun::BegunCall;
use super::calls::{Counted, RunningCalls};
use super::progress::NotificationFilter;
use super::snapshot::ToolSnapshots;
use super::tool_news::{self, Differences, ToolNews};
use haft_callers::Caller;
use haft_core::report::shortened;
use haft_core::sync::Lock;
use haft_core::tool::{Approvals, Client, Entry, Widening};
use haft_core::trace::Wire;

/// Characters of a client's name and version in the journal.
const MAX_CLIENT: usize = 100;

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
    shared: ServerShared,
    /// The least level of log messages that the client gets; `info` unless it sets one.
    level: Lock<LoggingLevel>,
    /// Identifies the client, where it has a session or connection of its own.
    client: Client,
    /// The client, once it has opened its session or called a tool.
    peer: Lock<Option<Peer<RoleServer>>>,
    /// The name that the client gave of itself as it opened its session.
    name: Lock<Option<Arc<str>>>,
    /// The rights that its person has given for the session.
    widening: Widening,
    news: ToolNews,
    /// What its person has allowed for the session.
    approvals: Approvals,
    /// Calls under way.
    running: AtomicUsize,
    /// Cancelled when the client is gone.
    life: CancellationToken,
    _ends_with_this: DropGuard,
}

impl ServerShared {
    /// For clients who are all `caller`.
    pub(super) fn new(snapshots: ToolSnapshots, caller: impl Into<Arc<str>>) -> Self {
        Self {
            snapshots,
            calls: RunningCalls::default(),
            caller: caller.into(),
            known: None,
            over: Wire::Streams,
        }
    }

    /// The same, for clients over HTTP.
    pub(super) fn over_http(self) -> Self {
        Self { over: Wire::Http, ..self }
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
        Handler::new(self.clone(), Client::another())
    }
}

impl Handler {
    fn new(shared: ServerShared, client: Client) -> Self {
        let life = CancellationToken::new();
        let (level, guard) = (Lock::new(LoggingLevel::Info), life.clone().drop_guard());
        let (peer, news, approvals) = (Lock::default(), ToolNews::default(), Approvals::default());
        let (running, name) = (AtomicUsize::new(0), Lock::default());
        // A client elsewhere gives nothing of this machine away.
        let widening = match shared.over {
            Wire::Streams => shared.snapshots.widening().of_another_session(),
            Wire::Http => Widening::default(),
        };
        Self {
            shared,
            level,
            client,
            peer,
            name,
            widening,
            news,
            approvals,
            running,
            life,
            _ends_with_this: guard,
        }
    }

    /// Whether a call may first be polled on the thread that read it. Where the journal still has to be opened, or
    /// a person has answered a question of the call, it may not.
    pub(super) fn may_run_inline(&self, request: &CallToolRequestParams) -> bool {
        let snapshot = self.shared.snapshots.now();
        let entry = snapshot.toolbox().find(&snapshot.own_name(&request.name));
        request.request_state.is_none()
            && entry.is_some_and(Entry::may_run_inline)
            && snapshot.session().journal.is_settled()
    }

    /// The context for a request outside rmcp; `None` before the client has opened its
    /// session or made a call through rmcp.
    pub(super) fn context(&self, id: &RequestId) -> Option<RequestContext<RoleServer>> {
        let peer = self.peer.lock().clone()?;
        Some(self.context_with(id, &peer))
    }

    /// The context for a request outside rmcp, of the client at `peer`.
    pub(super) fn context_with(&self, id: &RequestId, peer: &Peer<RoleServer>) -> RequestContext<RoleServer> {
        let mut context = RequestContext::new(id.clone(), peer.clone());
        context.ct = self.life.child_token();
        context
    }

    /// Whether a call of the client is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// Lets go of what is only of use while rmcp has the session; it may open it again.
    pub(super) fn rest(&self) {
        self.news.end();
        self.peer.lock().take();
    }

    /// What the arguments of a tool have to be, as clients know it.
    pub(super) fn input_schema(&self, name: &str) -> Option<Arc<JsonObject>> {
        self.shared.snapshots.now().tool(name).map(|tool| tool.input_schema.clone())
    }

    /// The notifications that the client gets of a call. Clients of later revisions say so with each call.
    fn notification_filter(&self, context: &RequestContext<RoleServer>) -> NotificationFilter {
        let own = *self.level.lock();
        let log = if is_sessionless(context) { context.meta.log_level() } else { Some(own) };
        NotificationFilter { progress: context.meta.get_progress_token(), log }
    }

    /// A call under way, which ends when haft does.
    async fn while_open<T>(&self, call: impl Future<Output = Result<T, ErrorData>>) -> Result<T, ErrorData> {
        let (_counted, _running) = (Counted::new(&self.running), self.shared.calls.begin());
        tokio::select! {
            biased;
            () = self.shared.calls.closed() => Err(ErrorData::internal_error("haft is ending: the call was stopped", None)),
            answer = call => answer,
        }
    }

    /// Identifies the calling client. One without a session is identified by its name and version.
    fn client(&self, context: &RequestContext<RoleServer>) -> Client {
        match context.client_info().filter(|_| is_sessionless(context)) {
            // Of two callers each may say what it likes of itself.
            Some(info) => Client::named(&[&*self.shared.caller, &info.name, &info.version].join("\0")),
            None => self.client,
        }
    }

    /// The calling client by the name that it gives of itself.
    fn client_name(&self, context: &RequestContext<RoleServer>) -> Option<Arc<str>> {
        let named = || context.meta.client_info().as_ref().map(named);
        if is_sessionless(context) { named() } else { self.name.lock().clone() }
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

/// What the client did not subscribe to it is not told.
async fn tell_subscriber(sink: &SubscriptionSink, differs: Differences) -> Result<(), SubscriptionSendError> {
    let told = |sent: Result<(), SubscriptionSendError>| match sent {
        Err(SubscriptionSendError::NotificationNotAccepted(_)) => Ok(()),
        sent => sent,
    };
    if differs.tools {
        told(sink.notify_tool_list_changed().await)?;
    }
    if differs.offers {
        told(sink.notify_prompt_list_changed().await)?;
        told(sink.notify_resource_list_changed().await)?;
    }
    Ok(())
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let snapshots = &self.shared.snapshots;
        server_config(&snapshots.now(), snapshots.tasks().is_some())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        *self.name.lock() = Some(named(&request.client_info));
        context.peer.set_peer_info(request.clone());
        *self.peer.lock() = Some(context.peer);
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.news.tell(&self.shared.snapshots, context.peer, &self.life);
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_sessionless(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.level.lock() = request.level;
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        one_page(request)?;
        Ok(ListToolsResult::with_all_items(self.shared.snapshots.complete().await.tools().to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared.snapshots.now().tool(name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(begun) = BegunCall::of(&context) {
            let _counted = Counted::new(&self.running);
            return begun.finish(&context).await;
        }
        self.peer.lock().get_or_insert_with(|| context.peer.clone());
        self.call_or_begin_task(request, context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks::<GetTaskMethod>()?.get(&self.shared.caller, &request.task_id).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks::<UpdateTaskMethod>()?.update(&self.shared.caller, &request.task_id).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks::<CancelTaskMethod>()?.cancel(&self.shared.caller, &request.task_id).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        one_page(request)?;
        let snapshot = self.shared.snapshots.complete().await;
        if snapshot.offers().is_empty() {
            return none::<_, ListPromptsRequestMethod>(&context);
        }
        Ok(ListPromptsResult::with_all_items(snapshot.offers().prompts().to_vec()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.while_open(Box::pin(self.get(request, context))).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        one_page(request)?;
        let snapshot = self.shared.snapshots.complete().await;
        if snapshot.offers().is_empty() {
            return none::<_, ListResourcesRequestMethod>(&context);
        }
        Ok(ListResourcesResult::with_all_items(snapshot.offers().resources().to_vec()))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        one_page(request)?;
        let snapshot = self.shared.snapshots.complete().await;
        if snapshot.offers().is_empty() {
            return none::<_, ListResourceTemplatesRequestMethod>(&context);
        }
        Ok(ListResourceTemplatesResult::with_all_items(snapshot.offers().templates().to_vec()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.while_open(Box::pin(self.read(request, context))).await
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        none::<_, CompleteRequestMethod>(&context)
    }

    /// What is no request that rmcp knows: another method, or one of these with other parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, .. } = request;
        let methods = if is_sessionless(&context) { LATER_METHODS } else { METHODS };
        let is_of_tasks = self.shared.snapshots.tasks().is_some() && TASK_METHODS.contains(&method.as_str());
        if methods.contains(&method.as_str()) || is_of_tasks {
            return Err(ErrorData::invalid_params(format!("these are no parameters of `{method}`"), None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, bounded_text(&method), None))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        // Narrowed by what is said in `server_config`.
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let sink = context.sink();
        let mut seen = self.shared.snapshots.now();
        let notifications = async {
            while let Some(other) = self.shared.snapshots.other_than(&seen).await {
                let differs = tool_news::differences(&seen, &other);
                seen = other;
                if tell_subscriber(sink, differs).await.is_err() {
                    return;
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = notifications => {}
            () = context.cancelled() => {}
            () = self.shared.calls.closed() => {}
        }
        Ok(())
    }
}
