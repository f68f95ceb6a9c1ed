//! The interface to the person who can answer a server's elicitation request: questions and replies. It never
//! answers in a person's place.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use haft_core::sync::Lock;
use serde_json::Value;

/// Passes elicitation requests of servers on to a person.
#[async_trait]
pub trait Elicitor: Debug + Send + Sync {
    /// Asks, one question at a time; waits as long as the person takes.
    async fn ask(&self, question: &ElicitationQuestion) -> Reply;
}

/// What a server wants to know.
#[derive(Clone, Debug, PartialEq)]
pub struct ElicitationQuestion {
    /// The name of the server.
    pub server: String,
    /// In its own words. Nothing in it is to be trusted, nor to steer a terminal.
    pub message: String,
    /// What is to be answered.
    pub mode: ElicitationMode,
}

/// What is to be answered.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationMode {
    /// A flat object, as this JSON Schema describes it.
    Form(Value),
    /// The person is asked to open this URL, which the server chose, and to confirm.
    Page(String),
}

impl ElicitationMode {
    /// How many bytes a person would be shown.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Form(schema) => schema.to_string().len(),
            Self::Page(url) => url.len(),
        }
    }
}

/// What a person says.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The object that was asked for; `None` where none was.
    Accept(Option<Value>),
    /// The person declines.
    Decline,
    /// The person gave no answer.
    Cancel,
}

/// How long people have been asked, all questions together. That time does not count towards time-outs.
#[derive(Debug, Default)]
pub(super) struct AskingClock(Lock<AskingState>);

#[derive(Debug, Default)]
struct AskingState {
    questions: u32,
    since: Option<Instant>,
    total: Duration,
}

impl AskingClock {
    /// How long up to now.
    pub(super) fn total(&self) -> Duration {
        let state = self.0.lock();
        state.total + state.since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// How many questions are being asked.
    pub(super) fn count(&self) -> u32 {
        self.0.lock().questions
    }

    /// Counts until what is returned is dropped.
    pub(super) fn begin(&self) -> AskingGuard<'_> {
        let mut state = self.0.lock();
        state.questions += 1;
        state.since.get_or_insert_with(Instant::now);
        AskingGuard(self)
    }
}

/// A question that is being asked.
pub(super) struct AskingGuard<'a>(&'a AskingClock);

impl Drop for AskingGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.questions -= 1;
        if state.questions == 0 {
            let asked = state.since.take().map(|since| since.elapsed());
            state.total += asked.unwrap_or_default();
        }
    }
}
