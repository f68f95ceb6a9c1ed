//! Calls that are over in a moment: they are made and answered by the thread that read them, so that no
//! thread has to wake another. One that turns out to take longer goes on like any other, and whatever
//! is no such call is left to rmcp.

use std::sync::{Arc, Weak};
use std::task::{Context, Waker};

use rmcp::Service;
use rmcp::model::{ClientRequest, GetExtensions, GetMeta, JsonRpcMessage, JsonRpcRequest};
use tokio::runtime::Handle;

use super::super::calls::Calls;
use super::super::handler::Handler;
use super::UnderWay;
use super::inbox::Incoming;
use super::outbox::WeakOutbox;
use crate::plugin::lent::{self, Whose};

/// Where such calls are made.
pub(super) struct Brief {
    handler: Weak<Handler>,
    outbox: WeakOutbox,
    under_way: Arc<UnderWay>,
    /// Those that take longer.
    going_on: Calls,
    runtime: Handle,
}

type Request = JsonRpcRequest<ClientRequest>;

impl Brief {
    /// Calls of `handler`, answered through `outbox`.
    pub(super) fn new(
        handler: Weak<Handler>,
        outbox: WeakOutbox,
        under_way: Arc<UnderWay>,
        going_on: Calls,
    ) -> Self {
        Self { handler, outbox, under_way, going_on, runtime: Handle::current() }
    }

    /// Makes the call that `incoming` is, if it is one that will be over in a moment; else it comes back.
    /// `whose` is the moment after it.
    pub(super) fn make(&self, incoming: Incoming, whose: Whose) -> Option<Incoming> {
        let Incoming::Message(message) = incoming else { return Some(incoming) };
        match *message {
            JsonRpcMessage::Request(request) if self.is_brief(&request) => {
                let left = self.answer(request);
                lent::clear(whose);
                left.map(JsonRpcMessage::Request)
            }
            other => Some(other),
        }
        .map(|message| Incoming::Message(Box::new(message)))
    }

    fn is_brief(&self, request: &Request) -> bool {
        let ClientRequest::CallToolRequest(call) = &request.request else { return false };
        self.handler.upgrade().is_some_and(|handler| handler.is_brief(&call.params))
    }

    /// Makes the call, unless nobody is there any more or too much is under way.
    fn answer(&self, mut request: Request) -> Option<Request> {
        let Some((handler, outbox)) = self.handler.upgrade().zip(self.outbox.upgrade()) else {
            return Some(request);
        };
        let Some(mut context) = handler.context(&request.id) else { return Some(request) };
        if !self.under_way.begin(&request.id, Some(context.ct.clone())) {
            return Some(request);
        }
        std::mem::swap(&mut context.meta, request.request.get_meta_mut());
        std::mem::swap(&mut context.extensions, request.request.extensions_mut());
        let (under_way, counted) = (self.under_way.clone(), self.going_on.begin());
        let JsonRpcRequest { id, request, .. } = request;
        let mut call = Box::pin(async move {
            let answer = match handler.handle_request(request, context).await {
                Ok(result) => JsonRpcMessage::response(result, id.clone()),
                Err(error) => JsonRpcMessage::error(error, Some(id.clone())),
            };
            // Where the client is gone, or has taken the call back, there is nobody to answer.
            if under_way.end(&id) {
                let _ = outbox.post(&answer).await;
            }
            drop(counted);
        });
        let _inside = self.runtime.enter();
        if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.runtime.spawn(call);
        }
        None
    }
}
