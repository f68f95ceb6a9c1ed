//! One call of a client, of a tool, a prompt or a resource: its quota, its approver, and its dispatch by the toolbox.
//! On request the client gets progress notifications and log messages. Notifications beyond the buffer are dropped,
//! so that a client that does not read never delays a tool. Calls of clients without a session may take several
//! turns: haft answers with questions or a task, and continues the call later.

#![expect(
    deprecated,
    reason = "logging is what clients of today show; later revisions ask for it call by call"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorCode, GetPromptRequestParams, InputRequiredResult,
    InputResponses, JsonObject, LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParam,
    ProgressNotification, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    ReadResourceRequestParams, ServerNotification,
};
use serde_json::{Value, json};

use super::{Answer, Era, Handler, raw, tasks_are_missing};
use crate::server::conversation::Requester;
use crate::server::elicitation::{ClientPerson, ElicitingApprover, ReplacementAnswer};
use crate::server::message;
use crate::server::names::Names;
use crate::server::questions::fingerprint;
use crate::server::snapshot::{Fallback, FoundTool, ToolSnapshot};
use crate::server::tasks::{PATIENCE, Turn};
use haft_callers::{CallPermit, Caller};
use haft_core::call::{McpAnswer, ToolCall, ToolResult};
use haft_core::event::{Event, Events};
use haft_core::sync::Lock;
use haft_core::tool::{Entry, Session, Toolbox, Widening, inline};
use haft_core::trace::{Operation, Span, TraceParent};

pub(super) enum Answered {
    Result(ToolResult),
    /// A question to the user; the call is repeated with the answer.
    Question(InputRequiredResult),
}

/// Sends the notifications of one call. Has to end before the call is answered.
struct ProgressNotifier {
    events: Events,
    /// Notifications that there was no room for.
    dropped: Arc<AtomicUsize>,
}

/// The notifications that a client requests of a call.
struct Notifications {
    tool: String,
    /// The token for progress notifications, if the client requests them.
    progress: Option<ProgressToken>,
    /// The minimum level of log messages; `None` if the client requests none.
    log: Option<LoggingLevel>,
    last_progress: Lock<f64>,
}

impl Handler {
    /// Returns the approver behind the client, for a tool that needs approval or a call with an answer.
    async fn approver(&self, request: &CallToolRequestParams, requester: &Requester) -> ElicitingApprover {
        let snapshots = &self.shared.snapshots;
        let choose = |fallback: &Fallback| {
            if requester.is_sessionless() { fallback.once.clone() } else { fallback.in_session.clone() }
        };
        let fallback = snapshots.fallback.as_ref().map(choose);
        let (questions, caller) = (&snapshots.questions, self.shared.caller());
        ElicitingApprover::new(requester, request, questions, caller, fallback).await
    }

    /// Begins a call, as a part of the client's trace.
    fn begin(&self, snapshot: &ToolSnapshot, requester: &Requester, tool: &str) -> Span {
        let parent =
            || TraceParent::parse(requester.meta.get_traceparent()?, requester.meta.get_tracestate());
        let trace = &snapshot.session.trace;
        let (request, protocol) = if trace.is_told() {
            (requester.id.to_string(), requester.version())
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

    /// Returns a permit within the caller's quota, if callers are identified. A refusal is not journalled: frequent
    /// calls would fill the journal.
    pub(super) fn permit(&self) -> Result<Option<CallPermit>, String> {
        let permit = self.shared.known().map(Caller::begin_call).transpose();
        permit.map_err(|exhausted| exhausted.to_string())
    }

    /// Returns the minimum level of log messages of a call. Clients of later revisions state it with each call.
    fn log_level(&self, requester: &Requester) -> Option<LoggingLevel> {
        let own = *self.level.lock();
        if requester.is_sessionless() { requester.meta.log_level() } else { Some(own) }
    }

    /// Runs a call: of `entry`, or of a name in the toolbox that none has.
    pub(super) async fn run(
        &self,
        snapshot: &ToolSnapshot,
        (entry, own): (Option<&Entry>, String),
        request: CallToolRequestParams,
        requester: &Requester,
    ) -> Result<Answered, ErrorData> {
        // With later revisions the call would have to run again with the answer.
        let widening = if requester.is_sessionless() { Widening::default() } else { self.widening.clone() };
        let asks = entry.is_some_and(Entry::asks);
        let approver = if asks || widening.is_possible() || request.request_state.is_some() {
            // Boxed: otherwise the future of every call would have its size.
            Some(Box::pin(self.approver(&request, requester)).await)
        } else {
            None
        };
        if let Some(refusal) = approver.as_ref().and_then(ElicitingApprover::refusal) {
            return Err(refusal);
        }
        let notifier = ProgressNotifier::begin(requester, &request.name, self.log_level(requester));
        let span = self.begin(snapshot, requester, if entry.is_some() { &own } else { "" });
        let session = Session {
            trace: span.of_call(),
            events: notifier.events.clone(),
            cancel: requester.cancel.clone(),
            approvals: approver.clone().map(|approver| self.approvals.asking(approver)).unwrap_or_default(),
            widening,
            client: self.client(requester),
            via: self.client_name(requester).or_else(|| snapshot.session.via.clone()),
            caller: self.shared.known().map(|caller| caller.id().clone()),
            person: ClientPerson::of(requester, snapshot.names.alone.is_some()),
            meta: meta_for_server(requester),
            ..snapshot.session.clone()
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let call = ToolCall { id: requester.id.to_string(), tool: own, arguments };
        let result = match entry {
            Some(entry) => Toolbox::dispatch_to(entry, call, &session).await,
            // Boxed: otherwise the future of every call would have its size.
            None => Box::pin(snapshot.toolbox.dispatch(call, &session)).await,
        };
        drop(session);
        span.end(&result.is_error.into());
        notifier.end();
        match approver.and_then(|approver| approver.replacement()) {
            Some(ReplacementAnswer::Question(question)) => Ok(Answered::Question(question)),
            Some(ReplacementAnswer::Missing(error)) => Err(error),
            None => Ok(Answered::Result(result)),
        }
    }

    /// Calls a tool. May leave a thread that runs calls inline: if the tool may not run there, the journal is not
    /// open yet, or the user has answered a question of the call.
    async fn call(&self, request: CallToolRequestParams, requester: Requester) -> Answer {
        let _permit = match self.permit() {
            Ok(permit) => permit,
            Err(refusal) => {
                let refused = message::call_result(ToolResult::error(refusal), false);
                return Ok(CallToolResponse::from(refused).into());
            }
        };
        let (snapshot, found) = self.shared.snapshots.with_tool(&request.name).await;
        let may_run_inline = found.entry.as_ref().is_some_and(|entry| entry.may_run_inline())
            && request.request_state.is_none()
            && snapshot.session.journal.is_settled();
        if !may_run_inline {
            inline::leave().await;
        }
        let FoundTool { entry, own, listed } = found;
        let tool = listed.and_then(|place| snapshot.tools.get(place));
        let requires_task = tool.is_some_and(|tool| tool.requires_task);
        if requires_task && requester.is_sessionless() && !requester.takes_tasks() {
            return Err(tasks_are_missing());
        }
        if let Some((headers, tool)) = requester.parameters.as_ref().zip(tool) {
            message::check_parameters(headers, &tool.input_schema, request.arguments.as_ref())?;
        }
        let is_known = entry.is_some() || snapshot.toolbox.withheld(&own).is_some();
        let has_schema = tool.is_some_and(|tool| tool.promises_data);
        match self.run(&snapshot, (entry.as_deref(), own), request, &requester).await? {
            Answered::Question(question) => Ok(question.into()),
            Answered::Result(result) if !is_known => Err(ErrorData::invalid_params(result.content, None)),
            Answered::Result(mut result) => {
                let server = entry.as_ref().and_then(|entry| entry.served()).map(|served| served.server);
                let passed = from_server(&snapshot.names, server.unwrap_or_default(), &mut result);
                let own = || CallToolResponse::from(message::call_result(result, has_schema)).into();
                passed.map_or_else(|| Ok(own()), |passed| passed.map(raw))
            }
        }
    }
}

impl Handler {
    /// Calls a tool; a long call becomes a task if its client supports tasks.
    pub(super) async fn call_in_turns(
        &self,
        request: CallToolRequestParams,
        requester: Requester,
        era: Era,
    ) -> Answer {
        if !requester.may_take_turns() {
            return self.while_open(self.call(request, requester)).await;
        }
        let CallToolRequestParams { name, arguments, request_state, input_responses, .. } = &request;
        let turn = self.turn(name, arguments.as_ref(), (request_state, input_responses));
        let is_required = || self.shared.snapshots.now().requires_task(name);
        let patience = || if is_required() { Duration::ZERO } else { PATIENCE };
        let turn = Turn { task_after: requester.takes_tasks().then(patience), ..turn };
        // A task has the answer in the form of a direct answer.
        let call = |own: Self, requester| async move {
            era.dressed(own.while_open(own.call(request, requester)).await)
        };
        // Boxed: otherwise the future of every call would have its size.
        Box::pin(self.in_turns(turn, requester, call)).await
    }

    pub(super) async fn get_in_turns(&self, request: GetPromptRequestParams, requester: Requester) -> Answer {
        if !requester.may_take_turns() {
            return self.while_open(self.get(request, requester)).await;
        }
        let GetPromptRequestParams { name, arguments, request_state, input_responses, .. } = &request;
        let name = format!("prompts/get {name}");
        let turn = self.turn(&name, arguments.as_ref(), (request_state, input_responses));
        let call = |own: Self, requester| async move { own.while_open(own.get(request, requester)).await };
        self.in_turns(turn, requester, call).await
    }

    pub(super) async fn read_in_turns(
        &self,
        request: ReadResourceRequestParams,
        requester: Requester,
    ) -> Answer {
        if !requester.may_take_turns() {
            return self.while_open(self.read(request, requester)).await;
        }
        let ReadResourceRequestParams { uri, request_state, input_responses, .. } = &request;
        let name = format!("resources/read {uri}");
        let turn = self.turn(&name, None, (request_state, input_responses));
        let call = |own: Self, requester| async move { own.while_open(own.read(request, requester)).await };
        self.in_turns(turn, requester, call).await
    }

    fn turn(
        &self,
        name: &str,
        arguments: Option<&JsonObject>,
        (state, answers): (&Option<String>, &Option<InputResponses>),
    ) -> Turn {
        Turn {
            known: self.shared.known().map(|caller| caller.id().clone()),
            call: fingerprint(self.shared.caller(), name, arguments),
            state: state.clone(),
            answers: answers.clone().unwrap_or_default(),
            task_after: None,
        }
    }

    /// Makes a call that may outlive the request of this handler, or continues it.
    async fn in_turns<F>(
        &self,
        turn: Turn,
        requester: Requester,
        call: impl FnOnce(Self, Requester) -> F,
    ) -> Answer
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let own = self.shared.handler();
        self.shared
            .snapshots
            .tasks
            .run(self.shared.caller(), turn, requester, |requester| call(own, requester))
            .await
    }
}

/// Returns the answer of the MCP server `server` for a client; `None` if another component answered.
pub(super) fn from_server(
    names: &Names,
    server: &str,
    result: &mut ToolResult,
) -> Option<Result<Value, ErrorData>> {
    Some(match *result.mcp.take()? {
        McpAnswer::Result(value) => {
            let mut value = McpAnswer::with_data(value, &result.attachments);
            names.result(server, &mut value);
            Ok(value)
        }
        McpAnswer::Error { code, message, data } => Err(ErrorData::new(ErrorCode(code), message, data)),
    })
}

/// The prefixes of `_meta` keys between a client and haft.
const OWN_META: &[&str] = &["progressToken", "traceparent", "tracestate", "baggage"];

/// The prefix of the protocol's own fields.
const OF_PROTOCOL: &str = "io.modelcontextprotocol/";

/// Maximum number of bytes of `_meta` that a server gets of a client, as JSON.
const MAX_META: usize = 64 << 10;

/// Returns the part of a request's `_meta` for the server of the tool.
fn meta_for_server(requester: &Requester) -> Option<Arc<JsonObject>> {
    let is_own = |key: &str| OWN_META.contains(&key) || key.starts_with(OF_PROTOCOL);
    let fields = requester.meta.iter().filter(|(key, _)| !is_own(key));
    let meta: JsonObject = fields.map(|(key, value)| (key.clone(), value.clone())).collect();
    let is_sent = !meta.is_empty() && Value::Object(meta.clone()).to_string().len() <= MAX_META;
    is_sent.then(|| Arc::new(meta))
}

impl ProgressNotifier {
    /// Sends the client of `requester` progress notifications of a call of `tool`, and log messages of at least the level
    /// `log`.
    fn begin(requester: &Requester, tool: &str, log: Option<LoggingLevel>) -> Self {
        let dropped = Arc::<AtomicUsize>::default();
        let (board, progress) = (requester.board.clone(), requester.meta.get_progress_token());
        if progress.is_none() && log.is_none() && board.is_none() {
            return Self { events: Events::default(), dropped };
        }
        let (link, last_progress) = (requester.link.clone(), Lock::new(f64::NEG_INFINITY));
        let wanted = Notifications { tool: tool.to_owned(), progress, log, last_progress };
        let count = dropped.clone();
        let events = Events::during_calls(move |event| {
            if let (Some(board), Event::Progress { message, .. }) = (&board, event) {
                board.set_progress(message);
            }
            if let Some(notification) = wanted.of(event)
                && !link.tell(notification, is_piece(event))
            {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { events, dropped }
    }

    /// Reports the dropped notifications.
    fn end(self) {
        let dropped = self.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(
                dropped,
                "notifications of a call were dropped: its client does not read them in time"
            );
        }
    }
}

/// Returns whether an event is one of many, of which some may be dropped.
fn is_piece(event: &Event) -> bool {
    matches!(event, Event::Stdout { .. } | Event::Stderr { .. } | Event::Partial { .. })
}

impl Notifications {
    fn of(&self, event: &Event) -> Option<ServerNotification> {
        match event {
            Event::Progress { done, total, message, .. } => self.progress(*done, *total, message),
            Event::Partial { text, .. } => {
                // One piece more, independent of the tool's own count.
                let done = self.last_progress.lock().max(0.0) + 1.0;
                self.progress(done, None, text)
            }
            Event::Info { message, .. } => self.log(LoggingLevel::Info, json!(message)),
            Event::Stdout { chunk, .. } => self.log(LoggingLevel::Debug, json!({ "stdout": chunk })),
            Event::Stderr { chunk, .. } => self.log(LoggingLevel::Debug, json!({ "stderr": chunk })),
            Event::Decided { decision, .. } => self.log(LoggingLevel::Debug, json!(decision)),
            _ => None,
        }
    }

    /// Returns a progress notification, if the progress grew: the protocol requires increasing values.
    fn progress(&self, done: f64, total: Option<f64>, message: &str) -> Option<ServerNotification> {
        let token = self.progress.clone()?;
        let mut last_progress = self.last_progress.lock();
        if !done.is_finite() || done <= *last_progress {
            return None;
        }
        *last_progress = done;
        let mut progress = ProgressNotificationParam::new(token, done);
        progress.total = total.filter(|total| total.is_finite());
        progress.message = Some(message.to_owned()).filter(|message| !message.is_empty());
        Some(ServerNotification::ProgressNotification(ProgressNotification::new(progress)))
    }

    fn log(&self, level: LoggingLevel, data: Value) -> Option<ServerNotification> {
        let least = self.log?;
        // Levels are declared by severity (RFC 5424).
        (level as u8 >= least as u8).then(|| {
            let message = LoggingMessageNotificationParam::new(level, data).with_logger(&*self.tool);
            ServerNotification::LoggingMessageNotification(LoggingMessageNotification::new(message))
        })
    }
}

#[cfg(test)]
mod tests;
