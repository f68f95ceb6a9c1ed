//! Messages as lines, as MCP has them on standard input and output. Two threads do the reading and
//! the writing, since both may wait for a client for ever. What is no message is answered or
//! dropped, and never ends the conversation; nothing but messages is written.

mod inbox;
mod outbox;

use std::collections::HashSet;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, GetMeta, JsonRpcMessage,
    ProtocolVersion, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::inbox::Incoming;
use self::outbox::Outbox;
pub use self::outbox::Output;

/// Requests of a client that are not answered yet. Guests take turns at a quarter of it; a client
/// with more has lost count, and every one holds memory.
const MAX_UNDER_WAY: usize = 256;

/// The code of an error that the protocol has no name for: "server error" of JSON-RPC 2.0.
const BUSY: ErrorCode = ErrorCode(-32_000);

/// A client at the other end of two pipes.
pub(super) struct Lines {
    incoming: mpsc::Receiver<Incoming>,
    outbox: Outbox,
    under_way: Arc<Mutex<HashSet<RequestId>>>,
    /// Whether the client has chosen an era: until then whatever is no request means nothing yet.
    has_begun: bool,
    stop: CancellationToken,
}

impl Lines {
    /// Reads `input` and writes `output`. `ended` is cancelled when the client hangs up; once
    /// `stop` is, nothing more is read.
    pub(super) fn new(
        input: impl Read + Send + 'static,
        output: impl Output,
        ended: &CancellationToken,
        stop: CancellationToken,
    ) -> io::Result<Self> {
        let incoming = inbox::start(input, ended.clone())?;
        let outbox = Outbox::start(output, ended.clone())?;
        Ok(Self { incoming, outbox, under_way: Arc::default(), has_begun: false, stop })
    }

    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            match self.incoming.recv().await? {
                Incoming::Message(message) => {
                    if let Some(message) = self.admit(*message).await {
                        return Some(message);
                    }
                }
                Incoming::Invalid(id, error) => self.refuse(id, error).await,
            }
        }
    }

    /// The message, if it is one to act on.
    async fn admit(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        match &message {
            JsonRpcMessage::Request(request) => {
                self.has_begun |= begins(&request.request);
                if !self.note(&request.id) {
                    let error = format!("more than {MAX_UNDER_WAY} requests under way: wait for answers");
                    self.refuse(Some(request.id.clone()), ErrorData::new(BUSY, error, None)).await;
                    return None;
                }
            }
            // The request will not be answered.
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        (self.has_begun || is_request).then_some(message)
    }

    /// Notes a request; `false` where there are too many.
    fn note(&self, id: &RequestId) -> bool {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = under_way.len() < MAX_UNDER_WAY;
        if has_room {
            under_way.insert(id.clone());
        }
        has_room
    }

    async fn refuse(&self, id: Option<RequestId>, error: ErrorData) {
        // Where the client is gone there is nobody to answer.
        let _ = self.outbox.post(&ServerJsonRpcMessage::error(error, id)).await;
    }
}

/// Whether a request settles how the client speaks: by opening a session, or by bringing all that
/// later revisions say with every request. Asking what there is and whether anybody is there do not.
fn begins(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_) => false,
        other => other.get_meta().missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty(),
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = answered {
            self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        }
        let outbox = self.outbox.clone();
        async move { outbox.post(&message).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            message = self.next() => message,
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outbox.close().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
