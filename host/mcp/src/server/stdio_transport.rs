//! The transport of MCP over standard input and output: one JSON-RPC message a line.
//!
//! One thread reads and one writes, since both may wait for a client without end. A line that is no message is
//! answered with an error and never ends the session; nothing but messages is written; requests read before
//! standard input ended are answered before the session ends. Short calls are polled once on the reader's thread
//! first (`fast_path`).

mod client;
mod fast_path;
mod hangup;
mod incoming;
mod pending;
mod reader;
mod writer;

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, GetMeta, JsonRpcMessage,
    ProtocolVersion, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(super) use self::client::{StdioClient, StdioService};
use self::fast_path::FastPath;
pub(super) use self::hangup::Hangup;
use self::incoming::Incoming;
use self::pending::{AdmissionError, PendingRequest, PendingRequests};
pub use self::reader::Input;
pub use self::writer::Output;
use self::writer::Writer;
use super::calls::RunningCalls;
use super::message;

/// How long closing waits for calls that were read here: as long as rmcp waits for its own. A caller with less
/// patience cancels them first.
const DRAIN: Duration = Duration::from_secs(5);

/// The code of an error that the protocol has no name for: "server error" of JSON-RPC 2.0.
const BUSY: ErrorCode = ErrorCode(-32_000);

/// A client at the other end of two pipes.
pub(super) struct StdioTransport {
    incoming: mpsc::Receiver<Incoming>,
    writer: Writer,
    pending: Arc<PendingRequests>,
    running_calls: RunningCalls,
    /// Whether the client has chosen a protocol era; until then only requests are passed on.
    has_begun: bool,
    /// Whether that is one without sessions.
    is_stateless: bool,
    hangup: Hangup,
    stop: CancellationToken,
}

impl StdioTransport {
    /// Reads `input` and writes `output`; `client` answers the calls that the reader's thread polls first.
    /// `hangup` records what the client does; once `stop` is cancelled, nothing more is read.
    pub(super) fn new(
        input: impl Input,
        output: impl Output,
        client: Weak<StdioClient>,
        (hangup, stop): (&Hangup, CancellationToken),
    ) -> io::Result<Self> {
        let (pending, running_calls) = <(Arc<PendingRequests>, RunningCalls)>::default();
        let writer = Writer::start(output, hangup.clone())?;
        if let Some(client) = client.upgrade() {
            client.connect(writer.downgrade());
        }
        let fast_path = FastPath::new(client, writer.downgrade(), pending.clone(), running_calls.clone());
        let incoming = reader::start(input, fast_path, hangup.clone())?;
        Ok(Self {
            incoming,
            writer,
            pending,
            running_calls,
            has_begun: false,
            is_stateless: false,
            hangup: hangup.clone(),
            stop,
        })
    }

    /// The next message; nothing once the input has ended and everything is answered that is waited for.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        while let Some(incoming) = self.incoming.recv().await {
            match incoming {
                Incoming::Message(message, bytes) => {
                    if let Some(message) = self.accept_message(*message, bytes) {
                        return Some(message);
                    }
                }
                Incoming::Invalid(id, error) => self.refuse(id, error),
            }
        }
        self.hangup.ended().await;
        self.pending.wait_until_answered(self.hangup.waited_for_since()).await;
        None
    }

    /// The message, if it is one to act on.
    fn accept_message(
        &mut self,
        message: ClientJsonRpcMessage,
        bytes: usize,
    ) -> Option<ClientJsonRpcMessage> {
        match &message {
            JsonRpcMessage::Request(request) => {
                if !self.has_begun && begins(&request.request) {
                    self.has_begun = true;
                    self.is_stateless = !matches!(request.request, ClientRequest::InitializeRequest(_));
                }
                let lasts = matches!(request.request, ClientRequest::SubscriptionsListenRequest(_));
                let begun = PendingRequest { bytes, stop: None, lasts };
                if let Err(error) = self.pending.begin(&request.id, begun) {
                    self.refuse_request(&request.id, error);
                    return None;
                }
            }
            // The request will not be answered.
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.pending.cancel(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        (self.has_begun || is_request).then_some(message)
    }

    fn refuse_request(&self, id: &RequestId, error: AdmissionError) {
        match error {
            AdmissionError::Busy(why) => self.refuse(Some(id.clone()), ErrorData::new(BUSY, why, None)),
            // What is answered by this id is the request before.
            AdmissionError::InUse => {
                let why = format!("the id {} is that of a request that is not answered yet", json!(id));
                self.refuse(None, ErrorData::invalid_request(why, None));
            }
        }
    }

    fn refuse(&self, id: Option<RequestId>, error: ErrorData) {
        // A client that is gone gets no answer.
        let _ = self.writer.post(&message::refusal(id, error, self.is_stateless));
    }
}

/// Whether a request settles how the client speaks: by opening a session, or by bringing all that later revisions say
/// with every request. `server/discover` and `ping` do not.
fn begins(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_) => false,
        other => other.get_meta().missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty(),
    }
}

impl Transport<RoleServer> for StdioTransport {
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
            self.pending.end(id);
        }
        let writer = self.writer.clone();
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        async move { if is_answer { writer.post(&message) } else { writer.notify(&message).await } }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            message = self.next() => {
                if message.is_none() {
                    self.hangup.all_is_answered();
                }
                message
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.running_calls.wait_until_idle(DRAIN).await;
        self.writer.close().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
