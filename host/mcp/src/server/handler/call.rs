//! One call of a client, of a tool, a prompt or a resource: its quota, who approves of it, what its client is told
//! meanwhile, and the way through the toolbox.

use rmcp::model::{CallToolRequestParams, CallToolResponse, InputRequiredResult, ProtocolVersion};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;

use super::{Handler, is_sessionless};
use crate::server::answer;
use crate::server::elicitation::{ElicitingApprover, ReplacementAnswer};
use crate::server::progress::ProgressNotifier;
use crate::server::snapshot::{Fallback, ToolSnapshot};
use haft_callers::{CallPermit, Caller};
use haft_core::call::{ToolCall, ToolResult};
use haft_core::tool::{Entry, Session, Widening};
use haft_core::trace::{Operation, Span, TraceParent};

/// What a call is for.
pub(super) struct Target<'a> {
    pub(super) entry: Option<&'a Entry>,
    /// The name in the toolbox, which may know none of this name.
    pub(super) own: String,
    /// Whether it is a prompt or resources.
    pub(super) is_offer: bool,
}

/// What a call is answered with.
pub(super) enum Answered {
    Result(ToolResult),
    /// A question to the person; the call comes again with the answer.
    Question(InputRequiredResult),
}

impl Handler {
    /// Asks the person behind the client, for a tool that asks for approval or a call that brings an answer.
    async fn approver(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> ElicitingApprover {
        let snapshots = &self.shared.snapshots;
        let choose = |fallback: &Fallback| {
            if is_sessionless(context) { fallback.once.clone() } else { fallback.in_session.clone() }
        };
        let fallback = snapshots.fallback().map(choose);
        let (questions, caller) = (snapshots.questions(), &self.shared.caller);
        ElicitingApprover::new(context, request, questions, caller, fallback).await
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

    /// A call within the quota of its caller, where callers are told apart. What is refused is noted in no journal: whoever
    /// calls too often would write it full.
    pub(super) fn permit(&self) -> Result<Option<CallPermit>, String> {
        let permit = self.shared.known.as_ref().map(Caller::begin_call).transpose();
        permit.map_err(|exhausted| exhausted.to_string())
    }

    /// Runs a call of what `target` says.
    pub(super) async fn run(
        &self,
        snapshot: &ToolSnapshot,
        target: Target<'_>,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answered, ErrorData> {
        let Target { entry, own, is_offer } = target;
        let (is_known, asks) = (entry.is_some(), entry.is_some_and(Entry::asks));
        // Of later revisions the call would have to run again with the answer.
        let widening = if is_sessionless(context) { Widening::default() } else { self.widening.clone() };
        let approver = if asks || widening.is_possible() || request.request_state.is_some() {
            // On the heap: the future of every call would have room for it.
            Some(Box::pin(self.approver(&request, context)).await)
        } else {
            None
        };
        if let Some(refusal) = approver.as_ref().and_then(ElicitingApprover::refusal) {
            return Err(refusal);
        }
        let notifier = ProgressNotifier::begin(context, &request.name, self.notification_filter(context));
        let span = self.begin(snapshot, context, if is_known { &own } else { "" });
        let session = Session {
            trace: span.of_call(),
            events: notifier.events(),
            cancel: context.ct.clone(),
            approvals: approver.clone().map(|approver| self.approvals.asking(approver)).unwrap_or_default(),
            widening,
            client: self.client(context),
            via: self.client_name(context).or_else(|| snapshot.session().via.clone()),
            caller: self.shared.known.as_ref().map(|caller| caller.id().clone()),
            ..snapshot.session().clone()
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let call = ToolCall { id: context.id.to_string(), tool: own, arguments };
        let result = if is_offer {
            // On the heap: the future of every call of a tool would have room for it too.
            Box::pin(snapshot.toolbox().dispatch_offer(call, &session)).await
        } else {
            snapshot.toolbox().dispatch(call, &session).await
        };
        drop(session);
        span.end(&result.is_error.into());
        notifier.end().await;
        match approver.and_then(|approver| approver.replacement()) {
            Some(ReplacementAnswer::Question(question)) => Ok(Answered::Question(question)),
            Some(ReplacementAnswer::Missing(error)) => Err(error),
            None => Ok(Answered::Result(result)),
        }
    }

    /// Calls a tool.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _permit = match self.permit() {
            Ok(permit) => permit,
            Err(refusal) => return Ok(answer::call_result(ToolResult::error(refusal), false).into()),
        };
        let snapshot = self.shared.snapshots.with_tool(&request.name).await;
        let own = snapshot.own_name(&request.name);
        let entry = snapshot.toolbox().find(&own);
        let is_known = entry.is_some() || snapshot.toolbox().withheld(&own).is_some();
        let has_schema = snapshot.tool(&request.name).is_some_and(|tool| tool.output_schema.is_some());
        let target = Target { entry, own, is_offer: false };
        match self.run(&snapshot, target, request, &context).await? {
            Answered::Question(question) => Ok(question.into()),
            Answered::Result(result) if !is_known => Err(ErrorData::invalid_params(result.content, None)),
            Answered::Result(result) => Ok(answer::call_result(result, has_schema).into()),
        }
    }
}
