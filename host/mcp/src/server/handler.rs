//! Handles a client's requests: lists tools and runs calls. Every call goes through
//! [`Toolbox::dispatch`](haft_core::tool::Toolbox::dispatch); no request changes what a tool may do.

#![expect(
    deprecated,
    reason = "logging is what clients of today show; later revisions ask for it call by call"
)]

mod protocol;
mod task_calls;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskMethod, CancelTaskParams, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, ErrorCode, GetTaskMethod,
    GetTaskParams, GetTaskResult, InitializeRequestParams, InitializeResult, JsonObject,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
    LoggingLevel, PaginatedRequestParams, ProtocolVersion, RequestId, ServerConfig, SetLevelRequestMethod,
    SetLevelRequestParams, SubscriptionFilter, Tool, UpdateTaskMethod, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::protocol::{
    LATER_METHODS, METHODS, TASK_METHODS, bounded_text, is_sessionless, none, server_config,
};
use super::answer;
use super::begun::BegunCall;
use super::calls::{Counted, RunningCalls};
use super::elicitation::{ElicitingApprover, ReplacementAnswer};
use super::progress::{NotificationFilter, ProgressNotifier};
use super::snapshot::{Fallback, ToolSnapshot, ToolSnapshots};
use super::tool_news::ToolNews;
use haft_callers::Caller;
use haft_core::call::{ToolCall, ToolResult};
use haft_core::sync::Lock;
use haft_core::tool::{Approvals, Client, Entry, Session};
use haft_core::trace::{Operation, Span, TraceParent, Wire};

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
        let life = CancellationToken::new();
        let (level, guard) = (Lock::new(LoggingLevel::Info), life.clone().drop_guard());
        let (client, peer, news) = (Client::another(), Lock::default(), ToolNews::default());
        let (shared, approvals, running) = (self.clone(), Approvals::default(), AtomicUsize::new(0));
        Handler { shared, level, client, peer, news, approvals, running, life, _ends_with_this: guard }
    }
}

impl Handler {
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

    /// Identifies the calling client. One without a session is identified by its name and version.
    fn client(&self, context: &RequestContext<RoleServer>) -> Client {
        match context.client_info().filter(|_| is_sessionless(context)) {
            // Of two callers each may say what it likes of itself.
            Some(info) => Client::named(&[&*self.shared.caller, &info.name, &info.version].join("\0")),
            None => self.client,
        }
    }

    /// Asks the person behind the client, for a tool that asks for approval or a call that brings an answer.
    async fn approver(
        &self,
        asks: bool,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Option<ElicitingApprover> {
        if !asks && request.request_state.is_none() {
            return None;
        }
        let snapshots = &self.shared.snapshots;
        let choose = |fallback: &Fallback| {
            if is_sessionless(context) { fallback.once.clone() } else { fallback.in_session.clone() }
        };
        let fallback = snapshots.fallback().map(choose);
        let (questions, caller) = (snapshots.questions(), &self.shared.caller);
        Some(ElicitingApprover::new(context, request, questions, caller, fallback).await)
    }

    /// A call begins, as a part of what its client says that it is a part of.
    fn begin(&self, snapshot: &ToolSnapshot, context: &RequestContext<RoleServer>, tool: &str) -> Span {
        let parent = || TraceParent::parse(context.meta.get_traceparent()?, context.meta.get_tracestate());
        let trace = &snapshot.session().trace;
        let (request, protocol) = if trace.is_told() {
            (context.id.to_string(), context.protocol_version())
        } else {
            Default::default()
        };
        trace.within(parent).begin(|| Operation::Served {
            tool,
            request: &request,
            protocol: protocol.as_ref().map(ProtocolVersion::as_str),
            over: self.shared.over,
        })
    }

    /// Makes a call, which is stopped when haft ends.
    async fn call_while_open(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _running = self.shared.calls.begin();
        tokio::select! {
            biased;
            () = self.shared.calls.closed() => Err(ErrorData::internal_error("haft is ending: the call was stopped", None)),
            answer = self.call(request, context) => answer,
        }
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let permit = self.shared.known.as_ref().map(Caller::begin_call).transpose();
        let _permit = match permit {
            Ok(permit) => permit,
            // Noted in no journal: whoever calls too often would write it full.
            Err(exhausted) => {
                let refusal = ToolResult::error(exhausted.to_string());
                return Ok(answer::call_result(refusal, false).into());
            }
        };
        let snapshot = self.shared.snapshots.with_tool(&request.name).await;
        let own = snapshot.own_name(&request.name);
        let entry = snapshot.toolbox().find(&own);
        let (is_known, asks) = (entry.is_some(), entry.is_some_and(Entry::asks));
        let approver = self.approver(asks, &request, &context).await;
        if let Some(refusal) = approver.as_ref().and_then(ElicitingApprover::refusal) {
            return Err(refusal);
        }
        let has_schema = snapshot.tool(&request.name).is_some_and(|tool| tool.output_schema.is_some());
        let notifier = ProgressNotifier::begin(&context, &request.name, self.notification_filter(&context));
        let span = self.begin(&snapshot, &context, if is_known { &own } else { "" });
        let session = Session {
            trace: span.of_call(),
            events: notifier.events(),
            cancel: context.ct.clone(),
            approvals: approver.clone().map(|approver| self.approvals.asking(approver)).unwrap_or_default(),
            client: self.client(&context),
            caller: self.shared.known.as_ref().map(|caller| caller.id().clone()),
            ..snapshot.session().clone()
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let call = ToolCall { id: context.id.to_string(), tool: own, arguments };
        let result = snapshot.toolbox().dispatch(call, &session).await;
        drop(session);
        span.end(&result.is_error.into());
        notifier.end().await;
        match approver.and_then(|approver| approver.replacement()) {
            Some(ReplacementAnswer::Question(question)) => return Ok(question.into()),
            Some(ReplacementAnswer::Missing(error)) => return Err(error),
            None => {}
        }
        if !is_known {
            return Err(ErrorData::invalid_params(result.content, None));
        }
        Ok(answer::call_result(result, has_schema).into())
    }
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
        let cursor = request.and_then(|request| request.cursor).filter(|cursor| !cursor.is_empty());
        if let Some(cursor) = cursor {
            let message = format!("unknown cursor `{}`: the list has one page", bounded_text(&cursor));
            return Err(ErrorData::invalid_params(message, None));
        }
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
        let _counted = Counted::new(&self.running);
        if let Some(begun) = BegunCall::of(&context) {
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
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        none::<_, ListPromptsRequestMethod>(&context)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        none::<_, ListResourcesRequestMethod>(&context)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        none::<_, ListResourceTemplatesRequestMethod>(&context)
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
                seen = other;
                if sink.notify_tool_list_changed().await.is_err() {
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
