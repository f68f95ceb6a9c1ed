//! Tasks of servers (MCP's extension `io.modelcontextprotocol/tasks`): a server may answer a call with a task, which haft follows to
//! its end.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::try_join_all;
use rmcp::model::{InputRequests, JsonObject, ServerResult, Task, TaskPayload};
use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Connection, RequestLimits};
use crate::client::ServerError;
use crate::client::calls::Listener;
use haft_core::event::Event;

/// The shortest and the longest interval at which haft queries a task.
const POLL: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(10)];

/// Time limit for the request to cancel a task whose call is cancelled.
const CANCEL: Duration = Duration::from_secs(2);

impl Connection {
    pub(super) async fn follow(
        &self,
        mut task: Task,
        listener: &Listener,
        limits: RequestLimits<'_>,
    ) -> Result<Value, ServerError> {
        let (mut answered, mut told, mut reports) = (BTreeSet::new(), None, 0.0);
        loop {
            if task.status_message != told {
                told.clone_from(&task.status_message);
                reports += 1.0;
                report(listener, reports, told.as_deref());
            }
            let [least, most] = POLL;
            let poll = Duration::from_millis(task.poll_interval_ms.unwrap_or(1000)).clamp(least, most);
            tokio::select! {
                () = sleep(poll) => {}
                () = limits.cancel.cancelled() => {
                    self.give_up(&task, limits).await;
                    return Err(ServerError::Cancelled);
                }
            }
            let id = JsonObject::from_iter([("taskId".to_owned(), task.task_id.as_str().into())]);
            let ServerResult::GetTaskResult(state) = self.ask("tasks/get", &id, limits).await? else {
                return Err(ServerError::Protocol("it did not answer with the state of its task".to_owned()));
            };
            match state.task.payload {
                TaskPayload::Completed { result } => return Ok(result.into()),
                TaskPayload::Failed { error } => return Err(failed(&error)),
                TaskPayload::Cancelled => {
                    return Err(ServerError::Protocol("it has cancelled its task".to_owned()));
                }
                TaskPayload::InputRequired { mut input_requests } => {
                    input_requests.retain(|key, _| answered.insert(key.clone()));
                    self.update(id, input_requests, listener, limits).await?;
                }
                _ => {}
            }
            task = state.task.task;
        }
    }

    async fn update(
        &self,
        mut params: JsonObject,
        questions: InputRequests,
        listener: &Listener,
        limits: RequestLimits<'_>,
    ) -> Result<(), ServerError> {
        if questions.is_empty() {
            return Ok(());
        }
        let answers = questions.into_iter().map(|(key, question)| self.response(key, question, listener));
        let answers: JsonObject = try_join_all(answers).await?.into_iter().collect();
        params.insert("inputResponses".to_owned(), answers.into());
        self.ask("tasks/update", &params, limits).await.map(drop)
    }

    /// Requests the server to cancel a task. The call ends in any case.
    async fn give_up(&self, task: &Task, limits: RequestLimits<'_>) {
        let id = JsonObject::from_iter([("taskId".to_owned(), task.task_id.as_str().into())]);
        let own = CancellationToken::new();
        let limits = RequestLimits { timeout: CANCEL.min(limits.timeout), cancel: &own };
        if let Err(error) = self.ask("tasks/cancel", &id, limits).await {
            tracing::debug!(%error, "a task of a server is not cancelled");
        }
    }
}

fn report(listener: &Listener, done: f64, message: Option<&str>) {
    let (call, message) = (listener.call.clone(), message.unwrap_or_default().to_owned());
    listener.events.emit(|| Event::Progress { call, done, total: None, message });
}

fn failed(error: &JsonObject) -> ServerError {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = error.get("message").and_then(Value::as_str).unwrap_or("the task has failed").to_owned();
    ServerError::Answer { code: code.unwrap_or(-32603), message, data: error.get("data").cloned() }
}
