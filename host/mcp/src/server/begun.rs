//! A request that is begun where it was read, before rmcp knows of it. It is polled once there; if that poll ends it,
//! no other thread and no stream of events were needed. If not, rmcp gets the request as ever, and its handler polls
//! the same future on.

use std::pin::Pin;
use std::sync::Arc;

use hyper::http::request::Parts;
use rmcp::model::{CallToolResponse, ClientRequest, GetExtensions, GetMeta, JsonRpcRequest, ServerResult};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer, Service};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use haft_core::sync::Lock;
use haft_core::tool::inline;

/// What is answered, once it is.
pub(super) type Answer = Result<ServerResult, ErrorData>;

/// What came of the first poll.
pub(super) enum FirstPoll {
    Answered(Box<Answer>),
    /// The request goes on where its handler finds this in the head of the HTTP request.
    Begun(BegunCall),
}

/// The rest of a call. Clones share it, and the first that goes on with it has it.
#[derive(Clone)]
pub(super) struct BegunCall(Arc<Lock<Option<Rest>>>);

struct Rest {
    answer: Pin<Box<dyn Future<Output = Answer> + Send>>,
    stop: CancellationToken,
    peer: watch::Sender<Option<Peer<RoleServer>>>,
}

/// Where a call that was begun finds its client's peer, once rmcp has the request. What the call tells its client
/// waits for that.
#[derive(Clone)]
pub(super) struct LaterPeer(watch::Receiver<Option<Peer<RoleServer>>>);

/// Begins `request` and polls it once, with `runtime` as the one that it runs on. The peer of `context` says which
/// revision the client speaks; nothing is sent to it.
pub(super) fn poll_once(
    handler: Arc<impl Service<RoleServer>>,
    mut request: JsonRpcRequest<ClientRequest>,
    mut context: RequestContext<RoleServer>,
    runtime: &Handle,
) -> FirstPoll {
    std::mem::swap(&mut context.meta, request.request.get_meta_mut());
    std::mem::swap(&mut context.extensions, request.request.extensions_mut());
    let (peer, later) = watch::channel(None);
    context.extensions.insert(LaterPeer(later));
    let stop = context.ct.clone();
    let answer = Box::pin(async move { handler.handle_request(request.request, context).await });
    match inline::poll_once(answer, runtime) {
        Ok(answer) => FirstPoll::Answered(Box::new(answer)),
        Err(answer) => FirstPoll::Begun(BegunCall(Arc::new(Lock::new(Some(Rest { answer, stop, peer }))))),
    }
}

impl BegunCall {
    /// The call that was begun for the request of `context`.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<Self> {
        context.extensions.get::<Parts>()?.extensions.get::<Self>().cloned()
    }

    /// Goes on with it for the client of `context`. An error where somebody else has: no call is made twice.
    pub(super) async fn finish(
        self,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let rest = self.0.lock().take();
        let Some(Rest { mut answer, stop, peer }) = rest else {
            return Err(ErrorData::internal_error("the call is answered elsewhere already", None));
        };
        peer.send_replace(Some(context.peer.clone()));
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            () = context.ct.cancelled() => {
                stop.cancel();
                answer.await
            }
        };
        answer.and_then(response)
    }
}

impl LaterPeer {
    /// The peer; nothing where the call came to its end without one.
    pub(super) async fn get(mut self) -> Option<Peer<RoleServer>> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|peer| peer.clone())
    }
}

fn response(result: ServerResult) -> Result<CallToolResponse, ErrorData> {
    match result {
        ServerResult::CallToolResult(result) => Ok(CallToolResponse::Complete(result)),
        ServerResult::InputRequiredResult(result) => Ok(CallToolResponse::InputRequired(result)),
        ServerResult::CreateTaskResult(result) => Ok(CallToolResponse::Task(result)),
        _ => Err(ErrorData::internal_error("the call of a tool was answered as something else", None)),
    }
}
