//! The state between haft and one client, on standard streams and over HTTP: the client's identity, open requests
//! of both sides, and the channel to the client. Also the calls of all clients of a server, so that a shutdown can
//! wait for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hyper::HeaderMap;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ClientResult, ElicitRequest,
    ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorCode, ErrorData, GetMeta, JsonRpcMessage,
    JsonRpcRequest, ProtocolVersion, RequestId, RequestMetaObject, ServerJsonRpcMessage, ServerNotification,
    ServerRequest, ServerResult,
};
use serde_json::json;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::board::Board;
use haft_core::sync::Lock;

/// Maximum number of a client's open requests. Guests take turns at a quarter of it; each request holds memory, and
/// a client with more has lost count.
pub(super) const MAX_RUNNING: usize = 256;

/// Maximum number of bytes of all requests: four of the largest. A single request is always accepted.
const MAX_BYTES: usize = 64 << 20;

/// The code of an error that the protocol has no name for: "server error" of JSON-RPC 2.0.
pub(super) const BUSY: ErrorCode = ErrorCode(-32_000);

/// The answer to a request.
pub(super) type Answer = Result<ServerResult, ErrorData>;

/// The sender of one request.
#[derive(Clone)]
pub(super) struct Requester {
    pub(super) id: RequestId,
    /// The metadata of the request and of its client (`_meta`).
    pub(super) meta: RequestMetaObject,
    /// Cancelled when the client cancels the request, or disconnects.
    pub(super) cancel: CancellationToken,
    /// The agreement of the client's session; `None` for a self-contained request.
    pub(super) session: Option<Agreed>,
    /// The headers of an HTTP request without a session that repeat arguments.
    pub(super) parameters: Option<HeaderMap>,
    /// The questions of a call that can wait for its client's next request.
    pub(super) board: Option<Arc<Board>>,
    pub(super) link: Arc<dyn Link>,
}

/// The agreement of a client and haft at the start of a session.
#[derive(Clone, Debug)]
pub(super) struct Agreed {
    pub(super) version: ProtocolVersion,
    /// The kinds of questions that the client shows to its person.
    pub(super) elicitation: Option<ElicitationCapability>,
}

/// The channel to a client while its request is handled.
#[async_trait]
pub(super) trait Link: Send + Sync {
    /// Sends a notification without waiting. `is_piece`: some of many notifications may be dropped. Returns whether
    /// there was room.
    fn tell(&self, notification: ServerNotification, is_piece: bool) -> bool;

    /// Asks the user behind the client.
    ///
    /// # Errors
    /// The reason why no user was asked.
    async fn ask(&self, form: ElicitRequestParams) -> Result<ElicitResult, String>;
}

/// The open requests between haft and a client with its own session or connection.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    state: Lock<State>,
    /// Notified when a request is answered or cancelled.
    fewer: Notify,
    /// Cancelled when the client disconnects.
    life: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    /// Requests that there were.
    requests: u64,
    running: HashMap<RequestId, OpenRequest>,
    /// Questions that there were.
    questions: i64,
    /// The receivers of answers to questions.
    asked: HashMap<i64, oneshot::Sender<Result<ClientResult, ErrorData>>>,
}

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct OpenRequest {
    number: u64,
    cancel: CancellationToken,
    bytes: usize,
    pub(super) since: Instant,
    /// Whether only haft or the client ends the request.
    pub(super) lasts: bool,
    /// Whether the answer is written, or about to be: a client that has read it may use the id again.
    is_answered: bool,
}

/// A running request. A drop ends it.
pub(super) struct Running {
    conversation: Arc<Conversation>,
    id: RequestId,
    /// The sequence number of the request.
    pub(super) number: u64,
    pub(super) cancel: CancellationToken,
}

/// A client's message other than a request.
pub(super) enum Said {
    /// The client has confirmed the session too.
    Opened,
    /// The client cancelled the request of this number.
    TakenBack(u64),
}

/// Calls of all clients of a server. Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningCalls {
    pub(super) running: TaskTracker,
    /// Cancelled to stop every call, present and future.
    pub(super) closing: CancellationToken,
}

impl Requester {
    /// Returns the sender of `request`, whose `_meta` is removed from it.
    pub(super) fn new(
        id: RequestId,
        request: &mut ClientRequest,
        cancel: CancellationToken,
        session: Option<Agreed>,
        link: Arc<dyn Link>,
    ) -> Self {
        let meta = std::mem::take(request.get_meta_mut());
        Self { id, meta, cancel, session, parameters: None, board: None, link }
    }

    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        self.meta.protocol_version().or_else(|| self.session.as_ref().map(|agreed| agreed.version.clone()))
    }

    /// Returns whether the client opens no session and sends everything with each request (2026-07-28).
    pub(super) fn is_sessionless(&self) -> bool {
        self.version().is_some_and(|version| !version.has_initialize())
    }

    /// Returns whether the client shows forms to its person. A client that names no kind of elicitation does.
    pub(super) fn shows_forms(&self) -> bool {
        self.elicits(|kinds| kinds.form.is_some() || kinds.url.is_none())
    }

    /// Returns whether the client has its person open URLs.
    pub(super) fn shows_urls(&self) -> bool {
        self.elicits(|kinds| kinds.url.is_some())
    }

    fn elicits(&self, is_shown: fn(&ElicitationCapability) -> bool) -> bool {
        match self.meta.client_capabilities() {
            Some(own) => own.elicitation.as_ref().is_some_and(is_shown),
            None => self.session.as_ref().and_then(|own| own.elicitation.as_ref()).is_some_and(is_shown),
        }
    }

    /// Returns whether haft may answer a call with questions or a task, and continue the call.
    pub(super) fn may_take_turns(&self) -> bool {
        self.is_sessionless() && (self.shows_forms() || self.shows_urls() || self.takes_tasks())
    }

    /// Returns whether the client takes a task for an answer.
    pub(super) fn takes_tasks(&self) -> bool {
        self.meta.client_capabilities().is_some_and(|own| own.supports_tasks())
    }
}

impl Conversation {
    /// Begins a request of `bytes` bytes.
    ///
    /// # Errors
    /// A request of this id is running, or too many others are ([`BUSY`]).
    pub(super) fn begin(
        self: &Arc<Self>,
        request: &JsonRpcRequest<ClientRequest>,
        bytes: usize,
    ) -> Result<Running, ErrorData> {
        let id = &request.id;
        let mut state = self.state.lock();
        // Two requests with one id would count as one.
        if state.running.get(id).is_some_and(|open| !open.is_answered) {
            let why = format!("the id {} belongs to a request that is not answered yet", json!(id));
            return Err(ErrorData::invalid_request(why, None));
        }
        let busy =
            |what: String| Err(ErrorData::new(BUSY, format!("{what} in progress: wait for answers"), None));
        if state.running.len() >= MAX_RUNNING {
            return busy(format!("more than {MAX_RUNNING} requests"));
        }
        let all: usize = state.running.values().map(|request| request.bytes).sum();
        if all > 0 && all + bytes > MAX_BYTES {
            return busy(format!("requests of more than {} MiB", MAX_BYTES >> 20));
        }
        let (number, cancel) = (state.requests, self.life.child_token());
        let lasts = matches!(request.request, ClientRequest::SubscriptionsListenRequest(_));
        let (since, is_answered) = (Instant::now(), false);
        let open = OpenRequest { number, cancel: cancel.clone(), bytes, since, lasts, is_answered };
        state.requests += 1;
        state.running.insert(id.clone(), open);
        Ok(Running { conversation: self.clone(), id: id.clone(), number, cancel })
    }

    /// Processes a message that is not a request: the answer to a question, or the cancellation of a request.
    pub(super) fn take(&self, message: ClientJsonRpcMessage) -> Option<Said> {
        match message {
            JsonRpcMessage::Notification(notification) => match notification.notification {
                ClientNotification::CancelledNotification(cancelled) => {
                    let open = self.remove(&cancelled.params.request_id?, |_| true)?;
                    open.cancel.cancel();
                    return Some(Said::TakenBack(open.number));
                }
                ClientNotification::InitializedNotification(_) => return Some(Said::Opened),
                _ => {}
            },
            JsonRpcMessage::Response(response) => self.settle(&response.id, Ok(response.result)),
            JsonRpcMessage::Error(error) => self.settle(&error.id?, Err(error.error)),
            JsonRpcMessage::Request(_) => {}
        }
        None
    }

    fn settle(&self, id: &RequestId, answer: Result<ClientResult, ErrorData>) {
        let number = match id {
            RequestId::Number(number) => Some(*number),
            // Some clients write every id as a text.
            RequestId::String(text) => text.parse().ok(),
        };
        let waiting = number.and_then(|number| self.state.lock().asked.remove(&number));
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer);
        }
    }

    /// Asks the client's user, by a message that `send` sends if there is room.
    ///
    /// # Errors
    /// The reason why no user was asked.
    pub(super) async fn ask(
        &self,
        form: ElicitRequestParams,
        send: impl FnOnce(&ServerJsonRpcMessage) -> bool,
    ) -> Result<ElicitResult, String> {
        let (sender, answer) = oneshot::channel();
        let number = {
            let mut state = self.state.lock();
            state.questions += 1;
            let number = state.questions;
            state.asked.insert(number, sender);
            number
        };
        let _asked = Asked { conversation: self, number };
        let question = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        if !send(&JsonRpcMessage::request(question, RequestId::Number(number))) {
            return Err("it does not read its input".into());
        }
        match answer.await {
            Ok(Ok(ClientResult::ElicitResult(result))) => Ok(result),
            Ok(Ok(_)) => Err("its answer does not fit the question".into()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("its session has ended".into()),
        }
    }

    /// Ends when no request is open that `is_waited_for`.
    pub(super) async fn answered(&self, is_waited_for: impl Fn(&OpenRequest) -> bool) {
        loop {
            // Registered before the check, so that no notification is missed.
            let fewer = self.fewer.notified();
            if !self.state.lock().running.values().any(&is_waited_for) {
                return;
            }
            fewer.await;
        }
    }

    /// Stops the requests of a disconnected client.
    pub(super) fn end(&self) {
        self.life.cancel();
    }

    fn remove(&self, id: &RequestId, is_it: impl FnOnce(&OpenRequest) -> bool) -> Option<OpenRequest> {
        let mut state = self.state.lock();
        let found = state.running.get(id).is_some_and(is_it);
        let removed = found.then(|| state.running.remove(id)).flatten();
        drop(state);
        self.fewer.notify_waiters();
        removed
    }
}

impl Running {
    /// Marks the request as answered, before its answer is written. Returns whether the client has not cancelled it.
    /// Another request may have its id by now.
    pub(super) fn claim_answer(&self) -> bool {
        let mut state = self.conversation.state.lock();
        let own = state.running.get_mut(&self.id).filter(|open| open.number == self.number);
        own.map(|open| open.is_answered = true).is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.conversation.remove(&self.id, |open| open.number == self.number);
    }
}

/// A question that waits for its answer. Dropped, it does not.
struct Asked<'c> {
    conversation: &'c Conversation,
    number: i64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.conversation.state.lock().asked.remove(&self.number);
    }
}

impl RunningCalls {
    /// Returns when no call is running, or after `most`.
    pub(super) async fn wait_until_idle(&self, most: Duration) {
        // New calls may begin nevertheless.
        self.running.close();
        let _ = tokio::time::timeout(most, self.running.wait()).await;
    }
}

#[cfg(test)]
mod tests;
