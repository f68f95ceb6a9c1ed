//! The editor as seen by an agent: receives updates, and is asked for permission. Responses without a waiting
//! request are ignored.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES, ClientCapabilities, Error, PROTOCOL_LEVEL_METHOD_NAMES, RequestId,
    RequestPermissionRequest, RequestPermissionResponse, SessionId, SessionNotification, SessionUpdate,
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::output::Outbox;
use haft_core::sync::Lock;

pub(crate) struct Client {
    outbox: Outbox,
    waiting: Lock<HashMap<RequestId, oneshot::Sender<Result<Value, Error>>>>,
    next: AtomicI64,
    /// Whether the editor shows notices (its capability `session.notices`).
    takes_notices: AtomicBool,
}

/// A waiting request; on drop, the editor is notified that it is cancelled.
struct Waiting<'a> {
    client: &'a Client,
    id: RequestId,
}

impl Client {
    pub(crate) fn new(outbox: Outbox) -> Self {
        let takes_notices = AtomicBool::default();
        Self { outbox, waiting: Lock::default(), next: AtomicI64::new(1), takes_notices }
    }

    pub(crate) fn initialized(&self, capabilities: &ClientCapabilities) {
        let notices = capabilities.session.as_ref().and_then(|session| session.notices.as_ref());
        self.takes_notices.store(notices.is_some(), Ordering::SeqCst);
    }

    /// Returns whether notices may be sent to the editor.
    pub(crate) fn takes_notices(&self) -> bool {
        self.takes_notices.load(Ordering::SeqCst)
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    pub(crate) fn update(&self, session: &SessionId, update: SessionUpdate) {
        let params = SessionNotification::new(session.clone(), update);
        self.notify(CLIENT_METHOD_NAMES.session_update, &params);
    }

    fn notify(&self, method: &str, params: &impl Serialize) {
        self.outbox.post(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    pub(crate) fn answer(&self, id: &RequestId, outcome: Result<Value, Error>) {
        self.outbox.post(match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        });
    }

    /// Asks the user. A drop of the future cancels the question.
    pub(crate) async fn ask_permission(
        &self,
        request: &RequestPermissionRequest,
    ) -> Result<RequestPermissionResponse, Error> {
        let id = RequestId::Number(self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().insert(id.clone(), sender);
        let waiting = Waiting { client: self, id: id.clone() };
        let method = CLIENT_METHOD_NAMES.session_request_permission;
        self.outbox.post(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": request }));
        let answer = answer.await.map_err(|_| Error::internal_error())?;
        drop(waiting);
        Ok(serde_json::from_value(answer?)?)
    }

    pub(crate) fn answered(&self, id: &RequestId, outcome: Result<Value, Error>) {
        if let Some(waiting) = self.waiting.lock().remove(id) {
            // The receiver may have stopped waiting.
            let _ = waiting.send(outcome);
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.client.waiting.lock().remove(&self.id).is_some() {
            let method = PROTOCOL_LEVEL_METHOD_NAMES.cancel_request;
            self.client.notify(method, &json!({ "requestId": self.id }));
        }
    }
}
