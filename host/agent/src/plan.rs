//! Plan mode as the model sees it: one line in its prompt. The line gives and removes no right:
//! [`Toolbox::planning`](haft_core::tool::Toolbox::planning) does.

use crate::is_own_question;
use crate::provider::{Message, Prompt};

/// The line that informs the model.
pub const PLAN: &str = "[Plan mode: for this task the tools can read and do nothing else; nothing is written or sent. \
     Find out what is needed, then answer with a plan. Only the user can lift this.]";

/// Adds the plan mode line to a prompt.
#[must_use]
pub fn planned(prompt: impl Into<Prompt>) -> Prompt {
    let prompt = prompt.into();
    let text = if prompt.text.is_empty() { PLAN.to_owned() } else { format!("{}\n\n{PLAN}", prompt.text) };
    Prompt { text, ..prompt }
}

/// Whether the last prompt of a person was given in plan mode. Of several prompts that were joined, one with the
/// line is enough.
pub(crate) fn is_planned(messages: &[Message]) -> bool {
    let prompt = messages.iter().rev().find_map(|message| match message {
        Message::User(prompt) if !is_own_question(prompt) => Some(prompt),
        _ => None,
    });
    prompt.is_some_and(|prompt| prompt.text.lines().any(|line| line == PLAN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AFTER_NOTHING, History};

    /// U11: a task begun in plan mode continues in plan mode, also after questions of haft.
    #[test]
    fn u11_a_task_of_plan_mode_is_known_as_one() {
        let mut history = History::default();
        assert!(!history.is_planned());
        history.push_prompt(planned("look")).unwrap();
        assert!(history.is_planned());
        history.push_prompt(AFTER_NOTHING).unwrap();
        assert!(history.is_planned());
        let mut history = History::default();
        history.push_prompt("do").unwrap();
        assert!(!history.is_planned());
        assert_eq!(planned("").text, PLAN);
    }
}
