//! A call that was begun before rmcp knows of it (`http::first_poll`) and did not end at once: rmcp gets the request as
//! ever, and its handler polls the same future on.

use std::pin::Pin;
use std::sync::Arc;

use hyper::http::request::Parts;
use rmcp::model::{CallToolResponse, ServerResult};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use haft_core::sync::Lock;

/// What is answered, once it is.
pub(super) type Answer = Result<ServerResult, ErrorData>;

/// A call at work.
pub(super) type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Tells a call the peer of its client.
pub(super) type PeerSender = watch::Sender<Option<Peer<RoleServer>>>;

/// The rest of a call. Clones share it, and the first that goes on with it has it.
#[derive(Clone)]
pub(super) struct BegunCall(Arc<Lock<Option<Rest>>>);

struct Rest {
    answer: Answering,
    stop: CancellationToken,
    peer: PeerSender,
}

/// Where a call that was begun finds its client's peer, once rmcp has the request. What the call tells its client
/// waits for that.
#[derive(Clone)]
pub(super) struct LaterPeer(watch::Receiver<Option<Peer<RoleServer>>>);

impl BegunCall {
    /// The rest of a call that is stopped by `stop`, and told of its client's peer by `peer`.
    pub(super) fn new(answer: Answering, stop: CancellationToken, peer: PeerSender) -> Self {
        Self(Arc::new(Lock::new(Some(Rest { answer, stop, peer }))))
    }

    /// The call that was begun for the request of `context`.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<Self> {
        context.extensions.get::<Parts>()?.extensions.get::<Self>().cloned()
    }

    /// Goes on with it for the client of `context`. Nothing where somebody else has.
    pub(super) async fn finish(
        self,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<CallToolResponse, ErrorData>> {
        let Rest { mut answer, stop, peer } = self.0.lock().take()?;
        peer.send_replace(Some(context.peer.clone()));
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            () = context.ct.cancelled() => {
                stop.cancel();
                answer.await
            }
        };
        Some(answer.and_then(response))
    }
}

impl LaterPeer {
    /// A place for a peer, and who tells it.
    pub(super) fn new() -> (PeerSender, Self) {
        let (sender, later) = watch::channel(None);
        (sender, Self(later))
    }

    /// The peer; nothing where the call came to its end without one.
    pub(super) async fn get(mut self) -> Option<Peer<RoleServer>> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|peer| peer.clone())
    }
}

fn response(result: ServerResult) -> Result<CallToolResponse, ErrorData> {
    match result {
        ServerResult::CallToolResult(result) => Ok(CallToolResponse::Complete(result)),
        ServerResult::InputRequiredResult(result) => Ok(CallToolResponse::InputRequired(result)),
        _ => Err(ErrorData::internal_error("the call of a tool was answered as something else", None)),
    }
}
