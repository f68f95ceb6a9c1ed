//! The questions of one call to a client without a session. The client reads them in a response, and answers them with another
//! request (2026-07-28, "multi round-trip requests").

use std::collections::{BTreeMap, BTreeSet};

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, InputRequest, InputRequests, InputResponses,
};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use super::questions::LIFE;
use haft_core::sync::Lock;

/// The key of a question to which the server gives none.
const KEY: &str = "question";

/// The questions of one call, and its last progress.
#[derive(Debug, Default)]
pub(super) struct Board {
    state: Lock<State>,
    /// Notified when a question is asked or answered.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<String, OpenQuestion>,
    /// The keys of all questions.
    used: BTreeSet<String>,
    /// Answers to questions that are not asked yet.
    early: InputResponses,
    progress: Option<String>,
}

#[derive(Debug)]
struct OpenQuestion {
    request: ElicitRequestParams,
    answer: oneshot::Sender<ElicitResult>,
}

impl Board {
    /// Returns a board with answers that the client has sent already.
    pub(super) fn with_answers(early: InputResponses) -> Self {
        Self { state: Lock::new(State { early, ..State::default() }), changed: Notify::default() }
    }

    /// Asks the client, and waits for its answer.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub(super) async fn ask(
        &self,
        key: Option<&str>,
        request: ElicitRequestParams,
    ) -> Result<ElicitResult, String> {
        let early = key.and_then(|key| self.state.lock().early.remove(key)).and_then(result);
        if let Some(early) = early {
            return Ok(early);
        }
        let answer = self.add(key, request);
        let answered = tokio::time::timeout(LIFE, answer).await;
        answered.map_err(|_| "the question has expired")?.map_err(|_| "the call has ended".to_owned())
    }

    fn add(&self, key: Option<&str>, request: ElicitRequestParams) -> oneshot::Receiver<ElicitResult> {
        let (answer, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        let key = state.unused(key.unwrap_or(KEY));
        state.open.insert(key, OpenQuestion { request, answer });
        drop(state);
        self.changed.notify_waiters();
        receiver
    }

    pub(super) fn open(&self) -> InputRequests {
        let request =
            |question: &OpenQuestion| InputRequest::Elicitation(ElicitRequest::new(question.request.clone()));
        let mut state = self.state.lock();
        // Of an abandoned question the server or the call no longer waits for the answer.
        state.open.retain(|_, question| !question.answer.is_closed());
        state.open.iter().map(|(key, question)| (key.clone(), request(question))).collect()
    }

    /// Answers open questions. Other answers, and those of another form, have no effect.
    pub(super) fn answer(&self, answers: InputResponses) {
        let mut state = self.state.lock();
        for (key, answer) in answers {
            let Some(answer) = result(answer) else { continue };
            if let Some(question) = state.open.remove(&key) {
                // An error means that the call has ended.
                let _ = question.answer.send(answer);
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits until a question is open.
    pub(super) async fn asked(&self) {
        loop {
            let changed = self.changed();
            if !self.open().is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// Returns a future that completes when a question is asked or answered after this call.
    pub(super) fn changed(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }

    pub(super) fn set_progress(&self, message: &str) {
        self.state.lock().progress = Some(message.to_owned());
    }

    pub(super) fn progress(&self) -> Option<String> {
        self.state.lock().progress.clone()
    }
}

impl State {
    /// Returns `key`, or `key` with a number if there was such a question.
    fn unused(&mut self, key: &str) -> String {
        let numbered = (2..).map(|number| format!("{key}-{number}"));
        let mut keys = std::iter::once(key.to_owned()).chain(numbered);
        let key = keys.find(|key| !self.used.contains(key)).unwrap_or_default();
        self.used.insert(key.clone());
        key
    }
}

fn result(answer: Value) -> Option<ElicitResult> {
    serde_json::from_value(answer).ok()
}
