//! Chooses the model of a task: the fast model may be asked whether it suffices. The question is asked without
//! tools, so its only effect is one word.

use crate::provider::{Ask, Message, Provider, Usage};
use haft_core::event::Events;
use haft_core::model::Route;
use haft_core::tool::Session;

/// The maximum number of characters of the task in the question: its beginning shows the subject.
const MAX_SHOWN: usize = 4000;

/// The system prompt of the question. In doubt, the better model is used.
const QUESTION: &str = "You decide which of two models works on a task: a fast one, or a strong one that costs more. \
     Do not do the task. Answer with one word: `simple` if the task takes a few plain steps or can be answered \
     from general knowledge, `complex` if it takes planning, programming, or many steps, or if you are in doubt.";

const SIMPLE: &str = "simple";
const COMPLEX: &str = "complex";

/// The model of a task, and the cost of choosing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// The model's name.
    pub model: String,
    /// The usage of the question, if it was asked.
    pub usage: Usage,
}

/// Chooses the model of `provider` that works on `prompt`. Never fails: without a usable answer of the fast model,
/// the better one is chosen.
pub async fn route(provider: &dyn Provider, route: Route, prompt: &str, session: &Session) -> Routed {
    let (fast, complex) = (provider.model_fast(), provider.model());
    let to = |model: &str, usage| Routed { model: model.to_owned(), usage };
    match route {
        Route::Complex => to(complex, Usage::default()),
        Route::Fast => to(fast, Usage::default()),
        Route::Auto if fast == complex => to(complex, Usage::default()),
        Route::Auto => {
            let (is_simple, usage) = classify(provider, prompt, session).await;
            let model = if is_simple { fast } else { complex };
            tracing::info!("`{model}` works on it, says `{fast}`");
            to(model, usage)
        }
    }
}

/// Asks the fast model whether it suffices. Returns the answer and the usage of the question.
async fn classify(provider: &dyn Provider, prompt: &str, session: &Session) -> (bool, Usage) {
    let shown: String = prompt.chars().take(MAX_SHOWN).collect();
    let messages = [Message::User(format!("The task:\n\n{shown}").into())];
    let ask =
        Ask { model: provider.model_fast(), system: QUESTION, messages: &messages, tools: &[], output: None };
    // The text of the answer is not a part of the task.
    let nobody = Events::none();
    match session.cancel.run_until_cancelled(provider.turn(&ask, &nobody)).await {
        Some(Ok(turn)) => {
            let mut usage = turn.usage;
            usage += turn.wasted;
            (is_simple(&turn.reply.text), usage)
        }
        Some(Err(error)) => {
            tracing::warn!(
                "cannot choose a model for the task: {}",
                session.redactor.redact(&error.to_string())
            );
            (false, *error.wasted)
        }
        None => (false, Usage::default()),
    }
}

/// Returns whether `simple` is first in the answer; models add explanations.
fn is_simple(answer: &str) -> bool {
    let answer = answer.to_lowercase();
    match (answer.find(SIMPLE), answer.find(COMPLEX)) {
        (Some(simple), Some(complex)) => simple < complex,
        (simple, _) => simple.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MR04: further text of the model is ignored.
    #[test]
    fn one_word_decides_and_doubt_means_the_better_model() {
        for simple in ["simple", "`Simple`.", "This is simple, not complex."] {
            assert!(is_simple(simple), "{simple}");
        }
        for complex in ["complex", "", "I cannot say", "Complex: it is not simple"] {
            assert!(!is_simple(complex), "{complex}");
        }
    }
}
