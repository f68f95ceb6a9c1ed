//! Asks the user of a client for approval, and the questions of MCP servers, by MCP elicitation. Up to revision
//! 2025-11-25 the question is a request to the client while the call waits. From 2026-07-28 on the call is answered
//! with the question, and sent again with the user's answer. Only an explicit yes to this call counts as approval.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ElicitRequest, ElicitRequestParams, ElicitationAction,
    ElicitationCapability, ElicitationSchema, EnumSchema, ErrorData, FormElicitationCapability, InputRequest,
    InputRequests, InputRequiredResult,
};
use serde::Deserialize;
use serde_json::Value;

use super::board::Board;
use super::conversation::{Link, Requester};
use super::questions::{Fingerprint, QuestionHash, Questions, UnusableAnswer, fingerprint, question_hash};
use haft_core::encoding::hex;
use haft_core::random;
use haft_core::sync::Lock;
use haft_core::tool::{Approver, Decision, ElicitationMode, ElicitationQuestion, Elicitor, Question, Reply};

/// The field of the form, and the key of the question.
const APPROVE: &str = "approve";

/// The form field for the duration of a requested right, and its values.
const HOLDS: &str = "holds";
const CALL: &str = "this call";
const SESSION: &str = "this session";
const WRITTEN: &str = "always: write it to program.toml";

/// Number of bytes of the id of a question about a URL.
const ID: usize = 16;

/// The user of one call. Clones share the call.
#[derive(Clone)]
pub(super) struct ElicitingApprover(Arc<ApprovalRequest>);

struct ApprovalRequest {
    link: Arc<dyn Link>,
    /// Whether the client is asked by the answer to its call: it accepts no requests (2026-07-28).
    is_sessionless: bool,
    shows_forms: bool,
    questions: Questions,
    /// Identifies the call.
    call: Fingerprint,
    /// The user's answer to the first attempt of the call, and the hash of the question.
    answered: Option<(QuestionHash, Decision)>,
    /// The reason why the call is refused, if its answer is not valid.
    refusal: Option<ErrorData>,
    /// The response that replaces the tool's answer.
    replacement: Lock<Option<ReplacementAnswer>>,
    /// The approver if the client asks no user.
    fallback: Option<Arc<dyn Approver>>,
}

/// The response that replaces a tool's answer.
pub(super) enum ReplacementAnswer {
    /// A question to the user; the call is repeated with the answer.
    Question(InputRequiredResult),
    /// The error that the client lacks elicitation, which the call needs.
    Missing(ErrorData),
}

impl ElicitingApprover {
    /// Returns the user behind the client of `requester`, who is `caller`, for the call in `request`.
    pub(super) async fn new(
        requester: &Requester,
        request: &CallToolRequestParams,
        questions: &Questions,
        caller: &str,
        fallback: Option<Arc<dyn Approver>>,
    ) -> Self {
        // A call of a session waits during the question, and is not sent again.
        let is_sessionless = requester.is_sessionless();
        let call = if is_sessionless {
            fingerprint(caller, &request.name, request.arguments.as_ref())
        } else {
            Fingerprint::default()
        };
        let (question_hash, refusal) = match &request.request_state {
            Some(state) => from_claim(questions.redeem(state, &call).await),
            None => (None, None),
        };
        let response = request.input_responses.as_ref().and_then(|responses| responses.get(APPROVE));
        // The answer is valid only for this call.
        let answered = question_hash.zip(response.map(|response| decision(response, false)));
        Self(Arc::new(ApprovalRequest {
            link: requester.link.clone(),
            is_sessionless,
            shows_forms: requester.shows_forms(),
            questions: questions.clone(),
            call,
            answered,
            refusal,
            replacement: Lock::default(),
            fallback,
        }))
    }

    /// Returns the reason for a refusal of the call: it has an answer to a question that was never asked about it, that
    /// was answered before, or that has expired.
    pub(super) fn refusal(&self) -> Option<ErrorData> {
        self.0.refusal.clone()
    }

    /// Returns the response that replaces the tool's answer.
    pub(super) fn replacement(&self) -> Option<ReplacementAnswer> {
        self.0.replacement.lock().take()
    }
}

#[async_trait]
impl Approver for ElicitingApprover {
    async fn ask(&self, question: &Question) -> Decision {
        match self.0.ask_client(question).await {
            Decision::Unasked(why) if !self.0.is_being_asked() => self.0.ask_fallback(question, why).await,
            decision => decision,
        }
    }
}

impl ApprovalRequest {
    fn is_being_asked(&self) -> bool {
        matches!(*self.replacement.lock(), Some(ReplacementAnswer::Question(_)))
    }

    /// Asks the other approver, after the client has asked no user because of `why`.
    async fn ask_fallback(&self, question: &Question, why: String) -> Decision {
        let Some(fallback) = &self.fallback else { return Decision::Unasked(why) };
        match fallback.ask(question).await {
            Decision::Unasked(other) => Decision::Unasked(format!("{why}; {other}")),
            decision => {
                // The client now has everything that it needs.
                self.replacement.lock().take();
                decision
            }
        }
    }

    async fn ask_client(&self, question: &Question) -> Decision {
        let Self { questions, call, answered, .. } = self;
        let hash = question_hash(question);
        // An answer to another question does not count: program.toml may contain another command now.
        if let Some((_, decision)) = answered.as_ref().filter(|(answered, _)| *answered == hash) {
            return decision.clone();
        }
        if !self.shows_forms {
            if self.is_sessionless {
                *self.replacement.lock() = Some(ReplacementAnswer::Missing(missing(question)));
            }
            return Decision::Unasked("the client does not support elicitation".into());
        }
        if self.is_sessionless {
            let state = match questions.create_state(call, &hash).await {
                Ok(state) => state,
                Err(error) => return Decision::Unasked(error.to_string()),
            };
            let input_required = InputRequiredResult::new(Some(form_request(question)), Some(state));
            *self.replacement.lock() = Some(ReplacementAnswer::Question(input_required));
            return Decision::Unasked("the person is being asked".into());
        }
        match self.link.ask(form(question)).await {
            Ok(result) => {
                let response = serde_json::to_value(result).unwrap_or_default();
                decision(&response, question.written_by.is_some())
            }
            Err(error) => Decision::Unasked(format!("the client failed to ask: {error}")),
        }
    }
}

/// Returns the question that a repeated call answers, or the error for it.
fn from_claim(
    redeemed: io::Result<Result<QuestionHash, UnusableAnswer>>,
) -> (Option<QuestionHash>, Option<ErrorData>) {
    match redeemed {
        Ok(Ok(question_hash)) => (Some(question_hash), None),
        Ok(Err(unusable)) => (None, Some(ErrorData::invalid_params(unusable.to_string(), None))),
        Err(error) => (None, Some(ErrorData::internal_error(format!("{error}; nothing ran"), None))),
    }
}

/// Returns the error for clients of later revisions that lack a required capability.
fn missing(question: &Question) -> ErrorData {
    let form = ElicitationCapability::new().with_form(FormElicitationCapability::new());
    let mut needed = ClientCapabilities::default();
    needed.elicitation = Some(form);
    let mut error = ErrorData::missing_required_client_capability(needed);
    let tool = &question.tool;
    error.message = format!(
        "`{tool}` did not run: it needs a person's approval, and the client does not support elicitation"
    )
    .into();
    error
}

fn form(question: &Question) -> ElicitRequestParams {
    let Question { tool, agent, verb, .. } = question;
    let mut schema = ElicitationSchema::builder().required_bool_with(APPROVE, |approve| {
        approve
            .title(format!("{verb} it"))
            .description("The tool runs only if you answer yes")
            .with_default(false)
    });
    let written_by = question.written_by.as_ref();
    if written_by.is_some() {
        let values = [CALL, SESSION, WRITTEN].map(str::to_owned).to_vec();
        schema = schema.optional_enum_schema(HOLDS, EnumSchema::builder(values).build());
    }
    let written_by = written_by
        .map(|command| format!("\n\nTo write the right to program.toml: `{command}`."))
        .unwrap_or_default();
    let agent = agent.as_ref().map(|agent| format!(" of the agent `{agent}`")).unwrap_or_default();
    let message = format!("`{tool}`{agent} needs your approval.\n\n{verb}: {}{written_by}", question.text);
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

/// Interprets a client's answer. Only a completed form proves a user: clients without one decline and cancel at
/// once by themselves. A duration is valid only for a form that asks for it: `is_lasting`.
fn decision(response: &Value, is_lasting: bool) -> Decision {
    let action = response.get("action").and_then(|action| ElicitationAction::deserialize(action).ok());
    let field = |name| response.get("content").and_then(|content| content.get(name));
    let approve = field(APPROVE).and_then(Value::as_bool);
    match action {
        Some(ElicitationAction::Accept) if approve == Some(true) => {
            match field(HOLDS).and_then(Value::as_str).filter(|_| is_lasting) {
                Some(SESSION) => Decision::Always,
                Some(WRITTEN) => Decision::Written,
                _ => Decision::Approved,
            }
        }
        Some(ElicitationAction::Accept) => Decision::Denied,
        Some(ElicitationAction::Decline) => Decision::Unasked("the client declined for its user".into()),
        Some(ElicitationAction::Cancel) => Decision::Unasked("the client dismissed the question".into()),
        _ => Decision::Unasked("the client's answer does not fit the question".into()),
    }
}

/// The user behind the client, who answers questions of MCP servers during one call (specification 2025-11-25,
/// "Elicitation"). Every answer comes from the client.
pub(super) struct ClientPerson {
    link: Arc<dyn Link>,
    /// The questions of a client without a session.
    board: Option<Arc<Board>>,
    shows_forms: bool,
    shows_urls: bool,
    /// Whether the client sees one server only, whose questions need no name.
    is_one_server: bool,
}

impl ClientPerson {
    /// Returns the user of a call; `None` if its client shows no questions.
    pub(super) fn of(requester: &Requester, is_one_server: bool) -> Option<Arc<dyn Elicitor>> {
        let (shows_forms, shows_urls) = (requester.shows_forms(), requester.shows_urls());
        let (link, board) = (requester.link.clone(), requester.board.clone());
        let person = Self { link, board, shows_forms, shows_urls, is_one_server };
        (shows_forms || shows_urls).then(|| Arc::new(person) as Arc<dyn Elicitor>)
    }

    fn request(&self, question: &ElicitationQuestion) -> Option<ElicitRequestParams> {
        let ElicitationQuestion { server, message, mode, .. } = question;
        let message = if self.is_one_server {
            message.clone()
        } else {
            // Quoted line by line, so that no line can pass for a line of haft.
            let lines: Vec<_> = message.lines().collect();
            format!("MCP server `{server}` asks: {}", lines.join("\n> "))
        };
        match mode {
            ElicitationMode::Form(schema) => {
                let requested_schema = serde_json::from_value(schema.clone()).ok()?;
                let form =
                    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
                Some(form).filter(|_| self.shows_forms)
            }
            ElicitationMode::Page(url)
                if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) =>
            {
                None
            }
            ElicitationMode::Page(url) => {
                let id: [u8; ID] = random::bytes().ok()?;
                let elicitation_id = hex(&id);
                let url = url.clone();
                let page =
                    ElicitRequestParams::UrlElicitationParams { meta: None, message, url, elicitation_id };
                Some(page).filter(|_| self.shows_urls)
            }
        }
    }
}

#[async_trait]
impl Elicitor for ClientPerson {
    async fn ask(&self, question: &ElicitationQuestion) -> Reply {
        let Some(request) = self.request(question) else { return Reply::Decline };
        let answer = match &self.board {
            Some(board) => board.ask(question.key.as_deref(), request).await,
            None => self.link.ask(request).await,
        };
        match answer {
            Ok(answer) => match answer.action {
                ElicitationAction::Accept => Reply::Accept(answer.content),
                ElicitationAction::Decline => Reply::Decline,
                _ => Reply::Cancel,
            },
            Err(error) => {
                tracing::info!(server = question.server, "the client failed to ask the user: {error}");
                Reply::Cancel
            }
        }
    }
}

impl std::fmt::Debug for ClientPerson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientPerson").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// RS06: only an accepted form with `approve: true` is an approval.
    #[test]
    fn only_an_accepted_form_with_a_yes_is_one() {
        let yes = |holds: &str| json!({"action": "accept", "content": {"approve": true, "holds": holds}});
        let asked = [(CALL, Decision::Approved), (SESSION, Decision::Always), (WRITTEN, Decision::Written)];
        for (holds, expected) in asked {
            assert_eq!(decision(&yes(holds), true), expected);
            assert_eq!(decision(&yes(holds), false), Decision::Approved, "it was not asked for how long");
        }
        for no in [
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept", "content": {"approve": false}}),
            json!({"action": "accept", "content": {"approve": "true"}}),
        ] {
            assert_eq!(decision(&no, true), Decision::Denied, "{no}");
        }
    }

    /// G11: a client that asked no user does not count as a denial of the user.
    #[test]
    fn what_a_client_does_by_itself_is_no_person_s_answer() {
        for (answer, why) in [
            (json!({"action": "decline", "content": {"approve": true}}), "declined for its user"),
            (json!({"action": "cancel"}), "dismissed the question"),
            (json!({"action": "sing"}), "does not fit the question"),
            (json!(true), "does not fit the question"),
        ] {
            let Decision::Unasked(said) = decision(&answer, true) else { panic!("{answer}") };
            assert!(said.contains(why), "{answer}: {said}");
        }
    }
}
