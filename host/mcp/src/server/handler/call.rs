//! One call of a client, of a tool, a prompt or a resource: its quota, who approves of it, what its client is told
//! meanwhile, and the way through the toolbox.

use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, InputRequiredResult, ProtocolVersion};
use serde_json::Value;

use super::{Answer, Handler};
use crate::server::answer;
use crate::server::elicitation::{ElicitingApprover, ReplacementAnswer};
use crate::server::parameters;
use crate::server::progress::ProgressNotifier;
use crate::server::requester::Requester;
use crate::server::snapshot::{Fallback, FoundTool, ToolSnapshot};
use haft_callers::{CallPermit, Caller};
use haft_core::call::{ToolCall, ToolResult};
use haft_core::tool::{Entry, Session, Toolbox, Widening, inline};
use haft_core::trace::{Operation, Span, TraceParent};

/// What a call is answered with.
pub(super) enum Answered {
    Result(ToolResult),
    /// A question to the person; the call comes again with the answer.
    Question(InputRequiredResult),
}

impl Handler {
    /// Asks the person behind the client, for a tool that asks for approval or a call that brings an answer.
    async fn approver(&self, request: &CallToolRequestParams, requester: &Requester) -> ElicitingApprover {
        let snapshots = &self.shared.snapshots;
        let choose = |fallback: &Fallback| {
            if requester.is_sessionless() { fallback.once.clone() } else { fallback.in_session.clone() }
        };
        let fallback = snapshots.fallback().map(choose);
        let (questions, caller) = (snapshots.questions(), &self.shared.caller);
        ElicitingApprover::new(requester, request, questions, caller, fallback).await
    }

    /// A call begins, as a part of what its client says that it is a part of.
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

    /// A call within the quota of its caller, where callers are told apart. What is refused is noted in no journal: whoever
    /// calls too often would write it full.
    pub(super) fn permit(&self) -> Result<Option<CallPermit>, String> {
        let permit = self.shared.known.as_ref().map(Caller::begin_call).transpose();
        permit.map_err(|exhausted| exhausted.to_string())
    }

    /// Runs a call: of `entry`, or of a name in the toolbox that none has.
    pub(super) async fn run(
        &self,
        snapshot: &ToolSnapshot,
        (entry, own): (Option<&Entry>, String),
        request: CallToolRequestParams,
        requester: &Requester,
    ) -> Result<Answered, ErrorData> {
        // Of later revisions the call would have to run again with the answer.
        let widening = if requester.is_sessionless() { Widening::default() } else { self.widening.clone() };
        let asks = entry.is_some_and(Entry::asks);
        let approver = if asks || widening.is_possible() || request.request_state.is_some() {
            // On the heap: the future of every call would have room for it.
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
            caller: self.shared.known.as_ref().map(|caller| caller.id().clone()),
            ..snapshot.session().clone()
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let call = ToolCall { id: requester.id.to_string(), tool: own, arguments };
        let result = match entry {
            Some(entry) => Toolbox::dispatch_to(entry, call, &session).await,
            // On the heap: the future of every call would have room for it too.
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

    /// Calls a tool; a call that takes long becomes a task where its client takes one.
    pub(super) async fn call_or_begin_task(
        &self,
        request: CallToolRequestParams,
        requester: Requester,
    ) -> Answer {
        let tasks = self.shared.snapshots.tasks();
        let Some(tasks) = tasks.filter(|_| requester.is_sessionless() && requester.takes_tasks()) else {
            return self.while_open(self.call(request, requester)).await.map(Into::into);
        };
        // It may outlive the request that this handler is for.
        let own = self.shared.handler();
        let call = |requester| async move { own.while_open(own.call(request, requester)).await };
        // On the heap: the future of every call would have room for it.
        Box::pin(tasks.run(&self.shared.caller, requester, call)).await.map(Into::into)
    }

    /// Calls a tool. May leave a thread that runs calls inline: where the tool may not run there, the journal still has to
    /// be opened, or a person has answered a question of the call.
    async fn call(
        &self,
        request: CallToolRequestParams,
        requester: Requester,
    ) -> Result<CallToolResponse, ErrorData> {
        let _permit = match self.permit() {
            Ok(permit) => permit,
            Err(refusal) => return Ok(answer::call_result(ToolResult::error(refusal), false).into()),
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
        if let Some((headers, tool)) = requester.parameters.as_ref().zip(tool) {
            parameters::check(headers, &tool.input_schema, request.arguments.as_ref())?;
        }
        let is_known = entry.is_some() || snapshot.toolbox().withheld(&own).is_some();
        let has_schema = tool.is_some_and(|tool| tool.output_schema.is_some());
        match self.run(&snapshot, (entry.as_deref(), own), request, &requester).await? {
            Answered::Question(question) => Ok(question.into()),
            Answered::Result(result) if !is_known => Err(ErrorData::invalid_params(result.content, None)),
            Answered::Result(result) => Ok(answer::call_result(result, has_schema).into()),
        }
    }
}
