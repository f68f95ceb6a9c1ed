//! The first poll of a call, on the reader's thread. A request is answered by one future, which rmcp drives otherwise. If
//! the first poll ends it, no thread had to wake another; if not, the runtime polls it on: what may not run on this thread
//! leaves it. Any message but a call of a tool and `ping` goes to rmcp.

use std::sync::{Arc, Weak};

use rmcp::model::{ClientRequest, GetMeta, JsonRpcMessage, JsonRpcRequest, ServerJsonRpcMessage};
use tokio::runtime::Handle;

use super::super::calls::RunningCalls;
use super::client::StdioClient;
use super::incoming::Incoming;
use super::pending::{self, PendingRequests};
use super::writer::{WeakWriter, Writer};
use haft_core::tool::inline::{self, ThreadLoad};

/// What the reader's thread needs to begin a call and to have it answered.
pub(super) struct FastPath {
    client: Weak<StdioClient>,
    writer: WeakWriter,
    pending: Arc<PendingRequests>,
    /// Calls that were given to the runtime, which closing waits for.
    running_calls: RunningCalls,
    runtime: Handle,
}

/// Bytes of a request that the reader's thread may begin: checking arguments takes longer for larger ones.
const MAX_FAST_PATH_BYTES: usize = 64 << 10;

/// What is known of the input after a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadAhead {
    /// Whether another call is waiting.
    pub(super) load: ThreadLoad,
    /// Messages that are read already.
    pub(super) ahead: usize,
}

type Request = JsonRpcRequest<ClientRequest>;

impl FastPath {
    /// Calls of `client`, answered through `writer`.
    pub(super) fn new(
        client: Weak<StdioClient>,
        writer: WeakWriter,
        pending: Arc<PendingRequests>,
        running_calls: RunningCalls,
    ) -> Self {
        Self { client, writer, pending, running_calls, runtime: Handle::current() }
    }

    /// Begins the call that `incoming` is; else returns `incoming`, for rmcp.
    /// `read_ahead` says what the thread does after it.
    pub(super) fn try_begin(&self, incoming: Incoming, read_ahead: ReadAhead) -> Option<Incoming> {
        let incoming = match incoming {
            Incoming::Message(message, bytes) => match *message {
                JsonRpcMessage::Request(request)
                    if bytes <= MAX_FAST_PATH_BYTES && is_begun_here(&request.request) =>
                {
                    let returned = self.begin(request, bytes, read_ahead.ahead);
                    inline::run_cleanups(read_ahead.load);
                    Incoming::Message(Box::new(JsonRpcMessage::Request(returned?)), bytes)
                }
                other => Incoming::Message(Box::new(other), bytes),
            },
            invalid @ Incoming::Invalid(..) => invalid,
        };
        self.flush_held();
        Some(incoming)
    }

    /// Has answers written that are held back.
    pub(super) fn flush_held(&self) {
        if let Some(writer) = self.writer.upgrade() {
            writer.flush_held();
        }
    }

    /// Blocks while the client takes no answers, unless `is_over`.
    pub(super) fn wait_for_room(&self, is_over: impl Fn() -> bool) {
        if let Some(writer) = self.writer.upgrade() {
            writer.wait_for_room(is_over);
        }
    }

    /// Begins the call and polls it once. Returns the request where the server is ending or too many requests are
    /// pending: rmcp then answers it.
    fn begin(&self, mut request: Request, bytes: usize, ahead: usize) -> Option<Request> {
        let Some((client, writer)) = self.client.upgrade().zip(self.writer.upgrade()) else {
            return Some(request);
        };
        let Some((requester, stop)) = client.begin(&request.id, &mut request.request) else {
            return Some(request);
        };
        let begun = pending::PendingRequest { bytes, stop: Some(stop), ..pending::PendingRequest::default() };
        if self.pending.begin(&request.id, begun).is_err() {
            *request.request.get_meta_mut() = requester.meta;
            return Some(request);
        }
        let pending = self.pending.clone();
        let JsonRpcRequest { id, request, .. } = request;
        let call = async move {
            let answer = match client.answer(request, requester).await {
                Ok(result) => JsonRpcMessage::response(result, id.clone()),
                Err(error) => JsonRpcMessage::error(error, Some(id.clone())),
            };
            // A client that is gone, or has cancelled the call, gets no answer.
            pending.end(&id).map(|_| answer)
        };
        self.poll_once(call, &writer, ahead);
        None
    }

    /// Polls `call` here; where it does not end with that, the runtime polls it on.
    fn poll_once(
        &self,
        call: impl Future<Output = Option<ServerJsonRpcMessage>> + Send + 'static,
        writer: &Writer,
        ahead: usize,
    ) {
        let counted = self.running_calls.begin();
        match inline::poll_once(Box::pin(call), &self.runtime) {
            Ok(answer) => {
                if let Some(answer) = answer {
                    let _ = writer.hold_back(&answer, ahead);
                }
                drop(counted);
            }
            Err(call) => {
                writer.flush_held();
                let writer = writer.clone();
                self.runtime.spawn(async move {
                    if let Some(answer) = call.await {
                        let _ = writer.post(&answer);
                    }
                    drop(counted);
                });
            }
        }
    }
}

/// Whether the reader's thread begins it. A client that asks whether haft lives is told even where everything else is busy.
fn is_begun_here(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::PingRequest(_) | ClientRequest::CallToolRequest(_))
}
