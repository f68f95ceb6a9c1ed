//! Tasks of servers (MCP's extension `io.modelcontextprotocol/tasks`): a server may answer a call with a task, which haft follows to
//! its end.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::try_join_all;
use rmcp::model::{InputRequests, JsonObject, ServerResult, Task, TaskPayload};
use rmcp::{Peer, RoleClient};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::{Connection, RequestLimits};
use crate::client::ServerError;
use crate::client::calls::Listener;
use crate::client::message::request_of;
use haft_core::event::Event;

/// The shortest and the longest interval at which haft queries a task.
const POLL: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(10)];

/// Time limit for the request to cancel a task whose call is cancelled.
const CANCEL: Duration = Duration::from_secs(2);

impl Connection {
    /// Returns the result of a task. A task that has not ended when haft stops to follow it, for whatever reason, is
    /// cancelled at the server.
    pub(super) async fn follow(
        &self,
        task: Task,
        listener: &Listener,
        limits: RequestLimits<'_>,
    ) -> Result<Value, ServerError> {
        let id = JsonObject::from_iter([("taskId".to_owned(), task.task_id.as_str().into())]);
        let mut open = OpenTask { peer: self.peer.clone(), id, has_ended: false };
        tokio::select! {
            biased;
            () = limits.cancel.cancelled() => {
                // Awaited, because a command may end right after a cancelled call.
                if let Some(cancelling) = open.cancel() {
                    drop(cancelling.await);
                }
                Err(ServerError::Cancelled)
            }
            result = self.result_of(task, &mut open, listener, limits) => result,
        }
    }

    async fn result_of(
        &self,
        mut task: Task,
        open: &mut OpenTask,
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
            sleep(Duration::from_millis(task.poll_interval_ms.unwrap_or(1000)).clamp(least, most)).await;
            let ServerResult::GetTaskResult(state) = self.ask("tasks/get", &open.id, limits).await? else {
                return Err(ServerError::Protocol("it did not answer with the state of its task".to_owned()));
            };
            let payload = state.task.payload;
            open.has_ended = matches!(
                payload,
                TaskPayload::Completed { .. } | TaskPayload::Failed { .. } | TaskPayload::Cancelled
            );
            match payload {
                TaskPayload::Completed { result } => return Ok(result.into()),
                TaskPayload::Failed { error } => return Err(failed(&error)),
                TaskPayload::Cancelled => {
                    return Err(ServerError::Protocol("it has cancelled its task".to_owned()));
                }
                TaskPayload::InputRequired { mut input_requests } => {
                    input_requests.retain(|key, _| answered.insert(key.clone()));
                    self.update(open.id.clone(), input_requests, listener, limits).await?;
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
}

/// A task that haft follows. Dropped before its end, the task is cancelled at the server.
struct OpenTask {
    peer: Peer<RoleClient>,
    /// The parameters of requests about the task.
    id: JsonObject,
    /// Whether the task has ended at the server, or haft has requested that.
    has_ended: bool,
}

impl OpenTask {
    /// Requests the server to cancel the task, in the background; `None` if the task has ended.
    fn cancel(&mut self) -> Option<JoinHandle<()>> {
        if std::mem::replace(&mut self.has_ended, true) {
            return None;
        }
        let runtime = Handle::try_current().ok()?;
        let request = request_of("tasks/cancel", &self.id).ok()?;
        let peer = self.peer.clone();
        Some(runtime.spawn(async move {
            match timeout(CANCEL, peer.send_request(request)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a task of a server is not cancelled"),
                Err(_) => tracing::debug!("a server did not confirm the end of its task"),
            }
        }))
    }
}

impl Drop for OpenTask {
    fn drop(&mut self) {
        self.cancel();
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
