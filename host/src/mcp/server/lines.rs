//! Messages as lines, as MCP has them on standard input and output. Two threads do the reading and
//! the writing, since both may wait for a client for ever; the one that reads makes calls that are over in
//! a moment (`brief`). What is no message is answered or dropped, and never ends the conversation; nothing
//! but messages is written.

mod brief;
mod code;
mod inbox;
mod outbox;
mod under_way;

use std::io::{self, Read};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, GetMeta, JsonRpcMessage,
    ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::brief::Brief;
use self::inbox::Incoming;
use self::outbox::Outbox;
pub use self::outbox::Output;
use self::under_way::{MAX_UNDER_WAY, UnderWay};
use super::calls::Calls;
use super::handler::Handler;

/// How long closing waits for calls that were read here: as long as rmcp waits for its own. Whoever has less
/// patience ends them.
const DRAIN: Duration = Duration::from_secs(5);

/// The code of an error that the protocol has no name for: "server error" of JSON-RPC 2.0.
const BUSY: ErrorCode = ErrorCode(-32_000);

/// A client at the other end of two pipes.
pub(super) struct Lines {
    incoming: mpsc::Receiver<Incoming>,
    outbox: Outbox,
    under_way: Arc<UnderWay>,
    going_on: Calls,
    /// Whether the client has chosen an era: until then whatever is no request means nothing yet.
    has_begun: bool,
    firsts: Firsts,
    stop: CancellationToken,
}

impl Lines {
    /// Reads `input` and writes `output`; `handler` makes the calls that are over in a moment. `ended` is
    /// cancelled when the client hangs up; once `stop` is, nothing more is read.
    pub(super) fn new(
        input: impl Read + Send + 'static,
        output: impl Output,
        handler: Weak<Handler>,
        (ended, stop): (&CancellationToken, CancellationToken),
    ) -> io::Result<Self> {
        let (under_way, going_on) = <(Arc<UnderWay>, Calls)>::default();
        let outbox = Outbox::start(output, ended.clone())?;
        let brief = Brief::new(handler, outbox.downgrade(), under_way.clone(), going_on.clone());
        let incoming = inbox::start(input, brief, ended.clone())?;
        Ok(Self { incoming, outbox, under_way, going_on, has_begun: false, firsts: Firsts::default(), stop })
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
                if !self.under_way.begin(&request.id, None) {
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
                    self.under_way.cancel(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        (self.has_begun || is_request).then_some(message)
    }

    async fn refuse(&self, id: Option<RequestId>, error: ErrorData) {
        // Where the client is gone there is nobody to answer.
        let _ = self.outbox.post(&ServerJsonRpcMessage::error(error, id)).await;
    }
}

/// What has been answered for the first time, which takes more of haft than any time after.
#[derive(Default)]
struct Firsts {
    list: bool,
    call: bool,
}

impl Firsts {
    /// Whether an answer is the first of its kind.
    fn is_one(&mut self, message: &ServerJsonRpcMessage) -> bool {
        let JsonRpcMessage::Response(response) = message else { return false };
        let is_known = match &response.result {
            ServerResult::ListToolsResult(_) => &mut self.list,
            ServerResult::CallToolResult(_) => &mut self.call,
            _ => return false,
        };
        !std::mem::replace(is_known, true)
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
            self.under_way.end(id);
        }
        let (outbox, is_first) = (self.outbox.clone(), self.firsts.is_one(&message));
        async move {
            let posted = outbox.post(&message).await;
            if is_first {
                #[cfg(target_os = "linux")]
                code::give_back();
            }
            posted
        }
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
        self.going_on.over(DRAIN).await;
        self.outbox.close().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
