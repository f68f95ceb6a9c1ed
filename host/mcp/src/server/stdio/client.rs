//! The client at the other end of standard streams: handles its messages, and sends messages to it.

use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ElicitRequestParams, ElicitResult, ErrorData, GetMeta,
    JsonRpcMessage, JsonRpcRequest, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerNotification,
    ServerResult,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::writer::Writer;
use crate::server::conversation::{Agreed, BUSY, Conversation, Link, Requester, Running, Said};
use crate::server::handler::{Handler, ToolNews};
use crate::server::message;
use haft_core::tool::inline::{self, ThreadLoad};

/// Maximum number of bytes of a request that the reader's thread may begin: the check of larger arguments takes longer.
const MAX_SHORT: usize = 64 << 10;

/// The client, as the reader's thread has it.
pub(super) struct Client {
    handler: Arc<Handler>,
    link: Arc<StdioLink>,
    /// The agreement of the client's session, once opened.
    agreed: Option<Agreed>,
    /// Whether the client has sent a self-contained request before it opened a session.
    is_sessionless: bool,
    runtime: Handle,
}

/// The way to the client.
pub(super) struct StdioLink {
    pub(super) writer: Writer,
    pub(super) conversation: Arc<Conversation>,
    news: ToolNews,
    /// Notified when the client confirms that its session is open.
    opened: Notify,
}

impl Client {
    /// Creates a client whose requests `handler` answers. Calls that do not end at once continue on the caller's
    /// runtime.
    pub(super) fn new(handler: Arc<Handler>, link: Arc<StdioLink>) -> Self {
        let runtime = Handle::current();
        Self { handler, link, agreed: None, is_sessionless: false, runtime }
    }

    pub(super) fn writer(&self) -> &Writer {
        &self.link.writer
    }

    /// Processes a message of `bytes` bytes. `ahead` is the number of following messages that are read already; `None`
    /// if nothing follows.
    pub(super) fn take(&mut self, message: ClientJsonRpcMessage, bytes: usize, ahead: Option<usize>) {
        if let JsonRpcMessage::Request(request) = message {
            self.begin(request, bytes, ahead);
        } else if let Some(Said::Opened) = self.link.conversation.take(message)
            && self.agreed.is_some()
        {
            self.link.news.begin(&self.handler.shared.snapshots);
            self.link.opened.notify_one();
        }
    }

    /// Answers an invalid or rejected message.
    pub(super) fn refuse(&self, id: Option<RequestId>, error: ErrorData) {
        // A disconnected client gets no answer.
        let _ = self.writer().post(&message::refusal(id, error, self.is_sessionless));
    }

    /// Begins a request.
    fn begin(&mut self, request: JsonRpcRequest<ClientRequest>, bytes: usize, ahead: Option<usize>) {
        let running = match self.link.conversation.begin(&request, bytes) {
            Ok(running) => running,
            Err(error) => {
                // The id in use belongs to the earlier request.
                let id = (error.code == BUSY).then_some(request.id);
                return self.refuse(id, error);
            }
        };
        let JsonRpcRequest { id, mut request, .. } = request;
        if let Some(result) = self.settled_here(&request) {
            let _ = self.writer().post(&message::answer(Ok(result), id));
            return;
        }
        let link = self.link.clone();
        let requester =
            Requester::new(id.clone(), &mut request, running.cancel.clone(), self.agreed.clone(), link);
        let handler = self.handler.clone();
        let call = async move {
            let mut work = pin!(handler.answer(request, requester));
            let answer = poll_fn(|context| or_defect(|| work.as_mut().poll(context))).await;
            // A client that has taken its request back gets no answer.
            running.is_awaited().then(|| (message::answer(answer, id), running))
        };
        self.run(call, bytes <= MAX_SHORT, ahead);
    }

    /// Returns the answer to a request that determines the protocol era, or that precedes this: a client
    /// opens a session, or sends the metadata of later revisions with every request. `server/discover` determines
    /// nothing.
    fn settled_here(&mut self, request: &ClientRequest) -> Option<ServerResult> {
        match request {
            ClientRequest::InitializeRequest(initialize) => {
                // No later message may be read before this one is answered.
                self.runtime.block_on(self.handler.settle());
                let (result, agreed) = self.handler.open(&initialize.params);
                self.agreed = Some(agreed);
                return Some(result.into());
            }
            _ if self.agreed.is_some() || self.is_sessionless => {}
            ClientRequest::PingRequest(_) => return Some(ServerResult::empty(())),
            ClientRequest::DiscoverRequest(_) => {}
            other => {
                let missing = other.get_meta().missing_required_keys(&ProtocolVersion::V_2026_07_28);
                self.is_sessionless = missing.is_empty();
            }
        }
        None
    }

    /// Polls `call` once on this thread if it `is_short`: if it ends, no other thread has to wake. The runtime
    /// continues it; work that may not run on this thread leaves it.
    fn run(
        &self,
        call: impl Future<Output = Option<(ServerJsonRpcMessage, Running)>> + Send + 'static,
        is_short: bool,
        ahead: Option<usize>,
    ) {
        let call = Box::pin(call);
        let polled = if is_short { inline::poll_once(call, &self.runtime) } else { Err(call) };
        match polled {
            // The request is running until its answer is posted.
            Ok(Some((answer, _running))) => {
                let _ = self.writer().hold_back(&answer, ahead.unwrap_or_default());
            }
            Ok(None) => {}
            Err(call) => {
                self.writer().flush_held();
                let writer = self.writer().clone();
                self.runtime.spawn(async move {
                    if let Some((answer, _running)) = call.await {
                        let _ = writer.post(&answer);
                    }
                });
            }
        }
        inline::run_cleanups(if ahead.is_some() { ThreadLoad::Busy } else { ThreadLoad::Idle });
    }
}

/// Returns the result of `poll`; an error if it panics, so that the client does not wait and this process continues
/// to read.
fn or_defect<T>(poll: impl FnOnce() -> Poll<Result<T, ErrorData>>) -> Poll<Result<T, ErrorData>> {
    let polled = catch_unwind(AssertUnwindSafe(poll));
    polled.unwrap_or_else(|_| Poll::Ready(Err(ErrorData::internal_error(message::DEFECT, None))))
}

impl StdioLink {
    /// Returns the link to the client that reads the output of `writer`.
    pub(super) fn new(writer: Writer) -> Self {
        let (conversation, news, opened) = Default::default();
        Self { writer, conversation, news, opened }
    }

    /// Notifies the client of changed tools once its session is open. Does not return.
    pub(super) async fn tell_news(&self, handler: &Handler) -> Infallible {
        self.opened.notified().await;
        self.news.tell(handler, self).await;
        std::future::pending().await
    }
}

#[async_trait]
impl Link for StdioLink {
    fn tell(&self, notification: ServerNotification, is_piece: bool) -> bool {
        let message: ServerJsonRpcMessage = JsonRpcMessage::notification(notification);
        self.writer.tell(&message, is_piece)
    }

    async fn ask(&self, form: ElicitRequestParams) -> Result<ElicitResult, String> {
        self.conversation.ask(form, |question| self.writer.tell(question, false)).await
    }
}
