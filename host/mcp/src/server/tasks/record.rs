//! The stored record of a task, and its status for clients.

use std::time::Duration;

use jiff::Timestamp;
use rmcp::model::{
    CustomResult, DetailedTask, ErrorData, InputRequests, JsonObject, ServerResult, Task, TaskPayload,
    TaskStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Answer, POLL};
use crate::server::board::Board;
use crate::unix_time;
use haft_core::replicas::KEPT;

/// The stored record of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// The time of the start, in milliseconds since 1970.
    pub(super) created: u64,
    /// The time of this record.
    updated: u64,
    state: State,
    /// The last message about the progress.
    #[serde(default)]
    progress: Option<String>,
}

/// The state of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// The call runs, or its replica died.
    Working,
    /// The call waits for answers to these questions, or its replica died.
    InputRequired(InputRequests),
    /// The call was answered with this result.
    Completed(JsonObject),
    /// The call was answered with this JSON-RPC error.
    Failed(JsonObject),
    /// The client cancelled the task.
    Cancelled,
}

impl Record {
    /// Returns the record of a task that began at `created`.
    pub(super) fn since(created: u64, state: State, progress: Option<String>) -> Self {
        Self { created, updated: now(), state, progress }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        // The keys are texts; nothing else could fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the record in `bytes`; `None` for records of another version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    pub(super) fn is_working(&self) -> bool {
        matches!(self.state, State::Working | State::InputRequired(_))
    }

    /// Returns whether the task waits for the answer to the question `key`.
    pub(super) fn asks(&self, key: &str) -> bool {
        matches!(&self.state, State::InputRequired(questions) if questions.contains_key(key))
    }

    /// Returns whether the recorded task runs, and the record is of at least this `age`.
    pub(super) fn is_older_than(&self, age: Duration) -> bool {
        self.is_working() && Duration::from_millis(now().saturating_sub(self.updated)) >= age
    }

    /// Returns the task `id` in the form for its client.
    pub(super) fn task(&self, id: &str) -> Task {
        let [created, updated] = [self.created, self.updated].map(text);
        let kept = self.updated.saturating_sub(self.created).saturating_add(millis(KEPT));
        let mut task = Task::new(id, TaskStatus::Working, created, updated)
            .with_ttl_ms(kept)
            .with_poll_interval_ms(millis(POLL));
        task.status_message.clone_from(&self.progress);
        task
    }

    /// Returns the status of the task with its result.
    pub(super) fn detailed(self, id: &str) -> DetailedTask {
        let task = self.task(id);
        let payload = match self.state {
            State::Working => TaskPayload::Working,
            State::InputRequired(input_requests) => TaskPayload::InputRequired { input_requests },
            State::Completed(result) => TaskPayload::Completed { result },
            State::Failed(error) => TaskPayload::Failed { error },
            State::Cancelled => TaskPayload::Cancelled,
        };
        DetailedTask::new(task, payload)
    }
}

impl State {
    /// Returns the state of a call that runs, with the questions of `board`.
    pub(super) fn of(board: &Board) -> Self {
        let open = board.open();
        if open.is_empty() { Self::Working } else { Self::InputRequired(open) }
    }

    /// Returns the state of a failed task.
    pub(super) fn failed(error: &ErrorData) -> Self {
        Self::Failed(object(error).unwrap_or_default())
    }

    /// Returns the state of a task with this answer; `is_cancelled`: its client cancelled it. An answer of more
    /// than `most` bytes is not stored.
    pub(super) fn ended(answer: Answer, is_cancelled: bool, most: usize) -> Self {
        let result = match answer.map(complete) {
            Ok(Ok(result)) => result,
            Ok(Err(why)) => return Self::failed(&ErrorData::internal_error(why, None)),
            Err(_) if is_cancelled => return Self::Cancelled,
            Err(error) => return Self::failed(&error),
        };
        if is_cancelled && result.get("isError") == Some(&Value::Bool(true)) {
            return Self::Cancelled;
        }
        let size = serde_json::to_vec(&result).map_or(usize::MAX, |text| text.len());
        if size > most { Self::failed(&beyond(size, most)) } else { Self::Completed(result) }
    }
}

/// Returns the result of a tool as a client gets it, or the reason why there is none. The answer of a server may have
/// fields and blocks that rmcp's types do not have.
fn complete(answer: ServerResult) -> Result<JsonObject, &'static str> {
    match answer {
        ServerResult::CustomResult(CustomResult(Value::Object(forwarded))) => Ok(forwarded),
        ServerResult::InputRequiredResult(_) => {
            Err("it needed a person's approval too late in the task: call the tool again")
        }
        own => object(&own).ok_or("the answer is not an object; the call has ended"),
    }
}

/// Returns the error for an answer that is too large to store.
fn beyond(size: usize, most: usize) -> ErrorData {
    let why = format!("the answer has {size} bytes; the limit for tasks is {most}; the call has ended");
    ErrorData::internal_error(why, None)
}

fn object(value: &impl Serialize) -> Option<JsonObject> {
    match serde_json::to_value(value).ok()? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    millis(unix_time())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Formats a time as ISO 8601.
fn text(millis: u64) -> String {
    let time = i64::try_from(millis).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    time.unwrap_or_default().to_string()
}
