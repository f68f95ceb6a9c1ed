//! Serves one client on standard input and output, one JSON-RPC message a line, until it closes its input. Requests
//! read just before the close are answered first; other running calls are stopped.
//!
//! One thread reads and one writes, because both may block on a client. The reading thread starts every request and
//! handles every other message; haft's runtime continues the requests that do not end on that thread.

mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ElicitRequestParams, ElicitResult, ErrorData, GetMeta,
    JsonRpcMessage, JsonRpcRequest, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerNotification,
    ServerResult,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use self::reader::Input;
pub use self::writer::Output;
use self::writer::Writer;
use super::conversation::{Agreed, BUSY, Conversation, Link, Requester, Running, Said};
use super::handler::{Handler, ServerShared, ToolNews};
use super::message;
use super::snapshot::{PATIENCE, ToolSnapshots};
use haft_core::tool::inline::{self, ThreadLoad};
use haft_core::trace::Wire;

/// Maximum time for answers to requests right before the end of standard input: the wait for new plugins, and two
/// seconds for the call.
const ANSWERS: Duration = PATIENCE.saturating_add(Duration::from_secs(2));

/// Time for running calls after the client has closed its input without a recent request.
const LAST_WORDS: Duration = Duration::from_millis(10);

/// Time limit for writing stopped calls to the journal.
const NOTING: Duration = Duration::from_millis(20);

/// Time limit for writing answers after the last one. The writer stops earlier if the client does not read.
const FLUSH: Duration = Duration::from_secs(30);

/// Maximum time for running calls and their answers when haft is to end. Shorter than the ten seconds that service
/// managers and containers wait before they kill.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// The longest pause between the requests of one burst, and between the last one and the end of standard input.
/// A client that closes standard input so soon has written all requests at once (`printf … | haft serve`) and
/// waits for the answers. A client that wants haft to end has paused for longer.
const RECENT: Duration = Duration::from_millis(250);

/// The caller id of the client: the process that starts haft.
const CALLER: &str = "standard streams";

/// Maximum number of bytes of a request that the reader's thread may begin: the check of larger arguments takes longer.
const MAX_SHORT: usize = 64 << 10;

/// The requests that a client writes without a pause.
#[derive(Debug, Default)]
struct Burst {
    /// The time at which the first request was read.
    first: Option<Instant>,
    /// The time at which haft was last ready to read. Time that haft needs for a request is not a pause of the
    /// client.
    ready: Option<Instant>,
}

/// The state of the client's pipes.
#[derive(Debug, Default)]
struct Hangup {
    /// The time at which the first awaited request was read, set if standard input ended with a [`Burst`].
    since: OnceLock<Instant>,
    /// Cancelled when standard input has ended, or the client no longer reads.
    ended: CancellationToken,
    /// Cancelled when the client no longer reads.
    client_gone: CancellationToken,
}

/// Serves `snapshots` to the client at `input` and `output` until it hangs up or `stop` is cancelled.
///
/// # Errors
/// No thread can be started.
pub async fn serve(
    snapshots: ToolSnapshots,
    input: impl Input,
    output: impl Output,
    stop: CancellationToken,
) -> io::Result<()> {
    let (shared, hangup) = (ServerShared::new(snapshots, CALLER, Wire::Streams), Arc::<Hangup>::default());
    let writer = Writer::start(output, hangup.clone())?;
    let (conversation, news, opened) = Default::default();
    let (link, handler) =
        (Arc::new(StdioLink { writer, conversation, news, opened }), Arc::new(shared.handler()));
    let (agreed, is_sessionless, runtime) = (None, false, Handle::current());
    let client = Client { handler: handler.clone(), link: link.clone(), agreed, is_sessionless, runtime };
    reader::start(input, client, (hangup.clone(), stop.clone()))?;
    let flush = tokio::select! {
        flush = ending(&link, &hangup, &stop) => flush,
        never = link.tell_news(&handler) => match never {},
    };
    // Long requests end with an error.
    shared.calls.closing.cancel();
    shared.calls.wait_until_idle(NOTING).await;
    let written = async {
        link.conversation.answered(|_| true).await;
        link.writer.close().await;
    };
    let _ = tokio::time::timeout(flush, written).await;
    Ok(())
}

/// Returns at the end of serving, with the time limit for the remaining output.
async fn ending(link: &StdioLink, hangup: &Hangup, stop: &CancellationToken) -> Duration {
    let answered = |since: Option<Instant>| {
        link.conversation.answered(move |open| !open.lasts && since.is_none_or(|since| open.since >= since))
    };
    tokio::select! {
        () = hangup.ended.cancelled() => {}
        () = stop.cancelled() => {
            let begun = Instant::now();
            let _ = tokio::time::timeout(GRACE, answered(None)).await;
            return GRACE.saturating_sub(begun.elapsed()).max(NOTING);
        }
    }
    // The time of the first request that the client waits for.
    let since = hangup.since.get().copied();
    let is_waiting = since.is_some() && !hangup.client_gone.is_cancelled();
    let (patience, flush) = if is_waiting { (ANSWERS, FLUSH) } else { (LAST_WORDS, NOTING) };
    tokio::select! {
        _ = tokio::time::timeout(patience, answered(since)) => {}
        () = hangup.client_gone.cancelled() => {}
        // A client that has hung up and sends a signal does not wait.
        () = stop.cancelled() => {}
    }
    flush
}

impl Burst {
    fn request_was_read(&mut self) {
        let now = Instant::now();
        if self.first.is_none() || self.has_paused(now) {
            self.first = Some(now);
        }
    }

    /// Records that the read messages are passed on.
    fn is_ready(&mut self) {
        self.ready = Some(Instant::now());
    }

    /// Returns the beginning of the burst that ended with standard input; `None` if the client paused before.
    fn since(&self) -> Option<Instant> {
        self.first.filter(|_| !self.has_paused(Instant::now()))
    }

    fn has_paused(&self, now: Instant) -> bool {
        self.ready.is_some_and(|ready| now.duration_since(ready) > RECENT)
    }
}

impl Hangup {
    /// Records that standard input has ended, with or right after `burst`.
    fn input_has_ended(&self, burst: &Burst) {
        if let Some(since) = burst.since() {
            let _ = self.since.set(since);
        }
        self.ended.cancel();
    }

    fn client_is_gone(&self) {
        self.client_gone.cancel();
        self.ended.cancel();
    }
}

/// The client, as the reader's thread has it.
struct Client {
    handler: Arc<Handler>,
    link: Arc<StdioLink>,
    /// The agreement of the client's session, once opened.
    agreed: Option<Agreed>,
    /// Whether the client has sent a self-contained request before it opened a session.
    is_sessionless: bool,
    /// Continues the calls that do not end at once.
    runtime: Handle,
}

/// The way to the client.
struct StdioLink {
    writer: Writer,
    conversation: Arc<Conversation>,
    news: ToolNews,
    /// Notified when the client confirms that its session is open.
    opened: Notify,
}

impl Client {
    fn writer(&self) -> &Writer {
        &self.link.writer
    }

    /// Processes a message of `bytes` bytes. `ahead` is the number of following messages that are read already; `None`
    /// if nothing follows.
    fn take(&mut self, message: ClientJsonRpcMessage, bytes: usize, ahead: Option<usize>) {
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
    fn refuse(&self, id: Option<RequestId>, error: ErrorData) {
        // A disconnected client gets no answer.
        let _ = self.writer().post(&message::refusal(id, error, self.is_sessionless));
    }

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
            running.claim_answer().then(|| (message::answer(answer, id), running))
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
    /// Notifies the client of changed tools once its session is open. Does not return.
    async fn tell_news(&self, handler: &Handler) -> Infallible {
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
