//! Asking the person behind a client, by elicitation. Up to 2025-11-25 the question is a request of
//! its own, while the call waits. From 2026-07-28 on a server has no requests: the call is answered
//! with the question, and comes again with the answer. Nothing but an explicit yes to the very call
//! it was asked about is one.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, ElicitRequest, ElicitRequestParams, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequests, InputRequiredResult, ProtocolVersion,
};
use rmcp::service::RequestContext;
use serde_json::Value;

use super::questions::{Fingerprint, Questions, fingerprint};
use crate::tool::{Approver, Decision, Question};

/// The field of the form, and the key of the question.
const APPROVE: &str = "approve";

/// The person behind one call. Clones share the call.
#[derive(Clone)]
pub(super) struct Person(Arc<Inner>);

struct Inner {
    context: RequestContext<RoleServer>,
    questions: Questions,
    /// What tells this call from others.
    call: Fingerprint,
    /// What the person said when the call came the first time.
    answered: Option<Decision>,
    /// The question that the call is to be answered with.
    pending: Mutex<Option<InputRequiredResult>>,
}

impl Person {
    /// The person behind the client of `context`, about the call in `request`.
    pub(super) fn new(
        context: &RequestContext<RoleServer>,
        request: &CallToolRequestParams,
        questions: &Questions,
    ) -> Self {
        let call = fingerprint(&request.name, request.arguments.as_ref());
        let is_ours = request.request_state.as_ref().is_some_and(|state| questions.take(state, &call));
        let response = request.input_responses.as_ref().and_then(|responses| responses.get(APPROVE));
        let answered = response.filter(|_| is_ours).map(decision);
        let (context, questions) = (context.clone(), questions.clone());
        Self(Arc::new(Inner { context, questions, call, answered, pending: Mutex::default() }))
    }

    /// What the call is to be answered with, where that is a question.
    pub(super) fn pending(&self) -> Option<InputRequiredResult> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[async_trait]
impl Approver for Person {
    async fn ask(&self, question: &Question) -> Decision {
        let Inner { context, questions, call, answered, pending } = &*self.0;
        if let Some(decision) = answered {
            return decision.clone();
        }
        if !has_forms(context) {
            return Decision::Unasked("the client cannot ask anybody (it has no elicitation)".into());
        }
        if is_without_requests(context) {
            let state = match questions.put(*call) {
                Ok(state) => state,
                Err(error) => return Decision::Unasked(error.to_string()),
            };
            let asked = InputRequiredResult::new(Some(form_request(question)), Some(state));
            *pending.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
            return Decision::Unasked("the person is being asked".into());
        }
        match context.peer.create_elicitation(form(question)).await {
            Ok(result) => decision(&serde_json::to_value(result).unwrap_or_default()),
            Err(error) => Decision::Unasked(format!("the client could not ask: {error}")),
        }
    }
}

/// Whether the client shows forms. One that says nothing of kinds of elicitation does.
fn has_forms(context: &RequestContext<RoleServer>) -> bool {
    let capabilities = context.client_capabilities();
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation);
    elicitation.is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none())
}

fn is_without_requests(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

fn form(question: &Question) -> ElicitRequestParams {
    let Question { tool, verb, what } = question;
    let schema = ElicitationSchema::builder().required_bool_with(APPROVE, |approve| {
        approve.title(format!("{verb} it")).description("Only a yes lets the tool run").with_default(false)
    });
    let message = format!("`{tool}` wants your approval.\n\n{verb}: {what}");
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: schema.build_unchecked(),
    }
}

fn form_request(question: &Question) -> InputRequests {
    let request = InputRequest::Elicitation(ElicitRequest::new(form(question)));
    [(APPROVE.to_owned(), request)].into()
}

/// What a client's answer means.
fn decision(response: &Value) -> Decision {
    let accepted = serde_json::to_value(ElicitationAction::Accept).unwrap_or_default();
    let said = response.get("content").and_then(|content| content.get(APPROVE)).and_then(Value::as_bool);
    if response.get("action") == Some(&accepted) && said == Some(true) {
        Decision::Approved
    } else {
        Decision::Denied
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rs06_only_an_accepted_form_with_a_yes_is_one() {
        assert_eq!(decision(&json!({"action": "accept", "content": {"approve": true}})), Decision::Approved);
        for no in [
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept", "content": {"approve": false}}),
            json!({"action": "accept", "content": {"approve": "true"}}),
            json!({"action": "decline", "content": {"approve": true}}),
            json!({"action": "cancel"}),
            json!(true),
        ] {
            assert_eq!(decision(&no), Decision::Denied, "{no}");
        }
    }
}
