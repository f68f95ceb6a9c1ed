//! One call of a client, of a tool, a prompt or a resource: its quota, its approver, and its dispatch by the
//! toolbox. On request the client gets progress notifications and log messages. Notifications beyond the buffer are
//! dropped, so that a client that does not read never delays a tool.

#![expect(
    deprecated,
    reason = "logging is what clients of today show; later revisions ask for it call by call"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorCode, InputRequiredResult, JsonObject, LoggingLevel,
    LoggingMessageNotification, LoggingMessageNotificationParam, ProgressNotification,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, ServerNotification,
};
use serde_json::{Value, json};

use super::{Answer, Handler, raw, tasks_are_missing};
use crate::server::conversation::Requester;
use crate::server::elicitation::{ElicitingApprover, ReplacementAnswer};
use crate::server::message;
use crate::server::names::Names;
use crate::server::person::ClientPerson;
use crate::server::snapshot::{Fallback, FoundTool, ToolSnapshot};
use haft_callers::{CallPermit, Caller};
use haft_core::call::{McpAnswer, ToolCall, ToolResult};
use haft_core::event::{Event, Events};
use haft_core::sync::Lock;
use haft_core::tool::{Entry, Session, Toolbox, Widening, inline};
use haft_core::trace::{Operation, Span, TraceParent};

/// The answer to a call.
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

/// The notifications that a client requests.
struct NotificationFilter {
    /// The token for progress notifications, if the client requests them.
    progress: Option<ProgressToken>,
    /// The minimum level of log messages; `None` if the client requests none.
    log: Option<LoggingLevel>,
}

impl Handler {
    /// Returns the approver behind the client, for a tool that needs approval or a call with an answer.
    async fn approver(&self, request: &CallToolRequestParams, requester: &Requester) -> ElicitingApprover {
        let snapshots = &self.shared.snapshots;
        let choose = |fallback: &Fallback| {
            if requester.is_sessionless() { fallback.once.clone() } else { fallback.in_session.clone() }
        };
        let fallback = snapshots.fallback().map(choose);
        let (questions, caller) = (snapshots.questions(), self.shared.caller());
        ElicitingApprover::new(requester, request, questions, caller, fallback).await
    }

    /// Begins a call, as a part of the client's trace.
    fn begin(&self, snapshot: &ToolSnapshot, requester: &Requester, tool: &str) -> Span {
        let parent =
            || TraceParent::parse(requester.meta.get_traceparent()?, requester.meta.get_tracestate());
        let trace = &snapshot.session().trace;
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

    /// Returns the notifications that the client gets of a call. Clients of later revisions state them with each
    /// call.
    fn notification_filter(&self, requester: &Requester) -> NotificationFilter {
        let own = *self.level.lock();
        let log = if requester.is_sessionless() { requester.meta.log_level() } else { Some(own) };
        NotificationFilter { progress: requester.meta.get_progress_token(), log }
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
        let notifier = ProgressNotifier::begin(requester, &request.name, self.notification_filter(requester));
        let span = self.begin(snapshot, requester, if entry.is_some() { &own } else { "" });
        let session = Session {
            trace: span.of_call(),
            events: notifier.events(),
            cancel: requester.cancel.clone(),
            approvals: approver.clone().map(|approver| self.approvals.asking(approver)).unwrap_or_default(),
            widening,
            client: self.client(requester),
            via: self.client_name(requester).or_else(|| snapshot.session().via.clone()),
            caller: self.shared.known().map(|caller| caller.id().clone()),
            person: ClientPerson::of(requester, snapshot.names().alone.is_some()),
            meta: meta_for_server(requester),
            ..snapshot.session().clone()
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let call = ToolCall { id: requester.id.to_string(), tool: own, arguments };
        let result = match entry {
            Some(entry) => Toolbox::dispatch_to(entry, call, &session).await,
            // Boxed: otherwise the future of every call would have its size.
            None => Box::pin(snapshot.toolbox().dispatch(call, &session)).await,
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
    pub(super) async fn call(&self, request: CallToolRequestParams, requester: Requester) -> Answer {
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
            && snapshot.session().journal.is_settled();
        if !may_run_inline {
            inline::leave().await;
        }
        let FoundTool { entry, own, listed } = found;
        let tool = listed.and_then(|place| snapshot.tools().get(place));
        let requires_task = tool.is_some_and(|tool| tool.requires_task);
        if requires_task && requester.is_sessionless() && !requester.takes_tasks() {
            return Err(tasks_are_missing());
        }
        if let Some((headers, tool)) = requester.parameters.as_ref().zip(tool) {
            message::check_parameters(headers, &tool.input_schema, request.arguments.as_ref())?;
        }
        let is_known = entry.is_some() || snapshot.toolbox().withheld(&own).is_some();
        let has_schema = tool.is_some_and(|tool| tool.promises_data);
        match self.run(&snapshot, (entry.as_deref(), own), request, &requester).await? {
            Answered::Question(question) => Ok(question.into()),
            Answered::Result(result) if !is_known => Err(ErrorData::invalid_params(result.content, None)),
            Answered::Result(mut result) => {
                let server = entry.as_ref().and_then(|entry| entry.served()).map(|served| served.server);
                let passed = from_server(snapshot.names(), server.unwrap_or_default(), &mut result);
                let own = || CallToolResponse::from(message::call_result(result, has_schema)).into();
                passed.map_or_else(|| Ok(own()), |passed| passed.map(raw))
            }
        }
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
    /// Sends the client of `requester` the notifications of a call of `tool` that pass `filter`.
    fn begin(requester: &Requester, tool: &str, filter: NotificationFilter) -> Self {
        let dropped = Arc::<AtomicUsize>::default();
        let board = requester.board.clone();
        if filter.progress.is_none() && filter.log.is_none() && board.is_none() {
            return Self { events: Events::default(), dropped };
        }
        let (link, tool) = (requester.link.clone(), tool.to_owned());
        let (last_progress, count) = (Lock::new(f64::NEG_INFINITY), dropped.clone());
        let events = Events::during_calls(move |event| {
            if let (Some(board), Event::Progress { message, .. }) = (&board, event) {
                board.set_progress(message);
            }
            if let Some(notification) = notification_of(event, &tool, &filter, &last_progress)
                && !link.tell(notification, is_piece(event))
            {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { events, dropped }
    }

    /// Returns the events of the call.
    fn events(&self) -> Events {
        self.events.clone()
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

fn notification_of(
    event: &Event,
    tool: &str,
    filter: &NotificationFilter,
    last_progress: &Lock<f64>,
) -> Option<ServerNotification> {
    match event {
        Event::Progress { done, total, message, .. } => {
            let token = filter.progress.clone()?;
            progress(token, *done, *total, message, last_progress)
        }
        Event::Partial { text, .. } => {
            let token = filter.progress.clone()?;
            // One piece more, independent of the tool's own count.
            let done = last_progress.lock().max(0.0) + 1.0;
            progress(token, done, None, text, last_progress)
        }
        Event::Info { message, .. } => log(tool, filter, LoggingLevel::Info, json!(message)),
        Event::Stdout { chunk, .. } => log(tool, filter, LoggingLevel::Debug, json!({ "stdout": chunk })),
        Event::Stderr { chunk, .. } => log(tool, filter, LoggingLevel::Debug, json!({ "stderr": chunk })),
        Event::Decided { decision, .. } => log(tool, filter, LoggingLevel::Debug, json!(decision)),
        _ => None,
    }
}

/// Returns a progress notification, if the progress grew: the protocol requires increasing values.
fn progress(
    token: ProgressToken,
    done: f64,
    total: Option<f64>,
    message: &str,
    last_progress: &Lock<f64>,
) -> Option<ServerNotification> {
    let mut last_progress = last_progress.lock();
    if !done.is_finite() || done <= *last_progress {
        return None;
    }
    *last_progress = done;
    let mut progress = ProgressNotificationParam::new(token, done);
    progress.total = total.filter(|total| total.is_finite());
    progress.message = Some(message.to_owned()).filter(|message| !message.is_empty());
    Some(ServerNotification::ProgressNotification(ProgressNotification::new(progress)))
}

fn log(
    tool: &str,
    filter: &NotificationFilter,
    level: LoggingLevel,
    data: Value,
) -> Option<ServerNotification> {
    let least = filter.log?;
    (rank(level) >= rank(least)).then(|| {
        let message = LoggingMessageNotificationParam::new(level, data).with_logger(tool);
        ServerNotification::LoggingMessageNotification(LoggingMessageNotification::new(message))
    })
}

/// Returns the severity by RFC 5424.
fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}

#[cfg(test)]
mod tests;
