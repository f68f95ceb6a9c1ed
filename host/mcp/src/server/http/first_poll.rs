//! The first poll of a request, where it was read. If that ends it, no other thread and no stream of events were needed.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rmcp::model::{ClientRequest, GetExtensions, GetMeta, JsonRpcRequest};
use rmcp::service::Peer;
use rmcp::{RoleServer, Service};
use tokio::runtime::Handle;

use crate::server::begun::{Answer, BegunCall, LaterPeer};
use crate::server::handler::Handler;

/// What came of the first poll.
pub(super) enum FirstPoll {
    Answered(Box<Answer>),
    /// The request goes on where its handler finds this in the head of the HTTP request.
    Begun(BegunCall),
}

/// Begins `request` of the client of `handler` and polls it once, with `runtime` as the one that it runs on.
/// `stand_in` says which revision the client speaks; nothing is sent to it.
pub(super) fn poll_once(
    handler: Arc<Handler>,
    mut request: JsonRpcRequest<ClientRequest>,
    stand_in: &Peer<RoleServer>,
    runtime: &Handle,
) -> FirstPoll {
    let mut context = handler.context_with(&request.id, stand_in);
    std::mem::swap(&mut context.meta, request.request.get_meta_mut());
    std::mem::swap(&mut context.extensions, request.request.extensions_mut());
    let (peer, later) = LaterPeer::new();
    context.extensions.insert(later);
    let stop = context.ct.clone();
    let mut answer = Box::pin(async move { handler.handle_request(request.request, context).await });
    let _inside = runtime.enter();
    // No wake-up is lost: the handler polls the future again, with a waker of its own.
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => FirstPoll::Answered(Box::new(answer)),
        Poll::Pending => FirstPoll::Begun(BegunCall::new(answer, stop, peer)),
    }
}
