//! Asks the user at the editor to approve a call. Only an option that allows the call is an approval.

use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    ContentBlock, PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    ToolCallId, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use async_trait::async_trait;

use crate::tool_call::fenced;
use crate::updates::Updates;
use haft_core::tool::{Approver, Decision, Question};

const ONCE: &str = "allow-once";
const ALWAYS: &str = "allow-always";
const WRITE: &str = "allow-and-write";
const REJECT: &str = "reject";

/// The user at the editor, for the calls of one session.
pub(crate) struct AtEditor {
    pub(crate) updates: Arc<Updates>,
}

#[async_trait]
impl Approver for AtEditor {
    async fn ask(&self, question: &Question) -> Decision {
        // A call of an agent that is itself a tool is not a call of this session: its question gets a separate tool
        // call, whose end is reported here.
        let own = question.agent.is_some().then(|| self.updates.new_call_id());
        let Some(card) = own.clone().or_else(|| self.updates.call_id(&question.call)) else {
            return Decision::Unasked("the call does not belong to this session".into());
        };
        let decision = match self.updates.client.ask_permission(&self.request(question, &card)).await {
            Ok(response) => decision(&response.outcome, question.written_by.is_some()),
            Err(error) => Decision::Unasked(format!("the editor failed to ask: {}", error.message)),
        };
        if let Some(own) = own {
            let is_allowed = matches!(decision, Decision::Approved | Decision::Always | Decision::Written);
            self.updates.decided(own, is_allowed);
        }
        decision
    }
}

impl AtEditor {
    /// Returns the permission request with its options.
    fn request(&self, question: &Question, card: &ToolCallId) -> RequestPermissionRequest {
        let Question { verb, tool, what, agent, written_by, .. } = question;
        let by = agent.as_ref().map(|agent| format!(" of the agent `{agent}`")).unwrap_or_default();
        let always = format!("Always allow `{tool}`{by} in this session");
        let asked = |text: &str| ContentBlock::from(format!("{verb}:\n{}", fenced(text))).into();
        let content = match self.updates.difference(question) {
            Some(difference) => vec![asked(what), difference],
            None => vec![asked(&question.text)],
        };
        let fields = ToolCallUpdateFields::new()
            .title(titled(verb, agent.as_deref(), what))
            .status(ToolCallStatus::Pending)
            .content(content);
        let write = written_by.as_ref().map(|command| {
            let title = format!("Allow, and write it to program.toml (`{command}`)");
            PermissionOption::new(WRITE, title, PermissionOptionKind::AllowAlways)
        });
        let mut options = vec![
            PermissionOption::new(ONCE, "Allow", PermissionOptionKind::AllowOnce),
            PermissionOption::new(ALWAYS, always, PermissionOptionKind::AllowAlways),
        ];
        options.extend(write);
        options.push(PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce));
        let call = ToolCallUpdate::new(card.clone(), fields);
        RequestPermissionRequest::new(self.updates.session().clone(), call, options)
    }
}

/// Returns the decision of the user. `may_write`: the option [`WRITE`] was offered.
fn decision(outcome: &RequestPermissionOutcome, may_write: bool) -> Decision {
    let chosen = match outcome {
        RequestPermissionOutcome::Selected(selected) => selected.option_id.0.as_ref(),
        _ => return Decision::Unasked("the editor dismissed the question".into()),
    };
    match chosen {
        ONCE => Decision::Approved,
        ALWAYS => Decision::Always,
        WRITE if may_write => Decision::Written,
        REJECT => Decision::Denied,
        _ => Decision::Unasked("the editor sent an answer that does not fit the question".into()),
    }
}

/// The maximum number of characters of a title.
const MAX_TITLE: usize = 120;

/// Returns the title of a question, on one line.
fn titled(verb: &str, agent: Option<&str>, text: &str) -> String {
    let text = first_line(text);
    agent.map_or_else(|| format!("{verb} {text}"), |agent| format!("{agent}: {verb} {text}"))
}

/// Returns the first line, shortened: the full text is shown below.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(MAX_TITLE).collect();
    if cut.len() < text.len() { format!("{cut} …") } else { cut }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// RS06: only a selected option is an answer; every other outcome counts as not asked.
    #[test]
    fn nothing_but_a_yes_is_one() {
        let decide = |outcome| decision(&serde_json::from_value(outcome).unwrap(), false);
        let selected = |option: &str| json!({ "outcome": "selected", "optionId": option });
        assert_eq!(decide(selected(ONCE)), Decision::Approved);
        assert_eq!(decide(selected(ALWAYS)), Decision::Always);
        assert_eq!(decide(selected(REJECT)), Decision::Denied);
        let written = serde_json::from_value(selected(WRITE)).unwrap();
        assert_eq!(decision(&written, true), Decision::Written);
        for nothing in [selected("yes"), selected(""), selected(WRITE), json!({ "outcome": "cancelled" })] {
            assert!(matches!(decide(nothing.clone()), Decision::Unasked(_)), "{nothing}");
        }
    }
}
