//! Calls that are over in a moment: they are made and answered by the thread that read them, so that no
//! thread has to wake another. One that turns out to take longer goes on like any other, and whatever
//! is no such call is left to rmcp.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use rmcp::Service;
use rmcp::model::{ClientRequest, GetExtensions, GetMeta, JsonRpcMessage, JsonRpcRequest};
use tokio::runtime::Handle;

use super::super::calls::Calls;
use super::super::handler::Handler;
use super::reader::Incoming;
use super::under_way::{self, UnderWay};
use super::writer::WeakWriter;
use haft_core::tool::inline::{self, Whose};

/// Where such calls are made.
pub(super) struct FastPath {
    handler: Weak<Handler>,
    writer: WeakWriter,
    under_way: Arc<UnderWay>,
    /// Those that take longer.
    going_on: Calls,
    runtime: Handle,
}

/// Bytes of a call that may be made by the thread that reads: whatever looks at arguments takes longer for
/// larger ones.
const MAX_FAST_PATH_BYTES: usize = 64 << 10;

/// What comes after a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    /// Whose the moment after it is.
    pub(super) whose: Whose,
    /// Messages that are read already.
    pub(super) ahead: usize,
}

type Request = JsonRpcRequest<ClientRequest>;

impl FastPath {
    /// Calls of `handler`, answered through `writer`.
    pub(super) fn new(
        handler: Weak<Handler>,
        writer: WeakWriter,
        under_way: Arc<UnderWay>,
        going_on: Calls,
    ) -> Self {
        Self { handler, writer, under_way, going_on, runtime: Handle::current() }
    }

    /// Makes the call that `incoming` is, if it is one that will be over in a moment; else it comes back.
    /// After it comes `next`.
    pub(super) fn make(&self, incoming: Incoming, next: Next) -> Option<Incoming> {
        let incoming = match incoming {
            Incoming::Message(message, bytes) => match *message {
                JsonRpcMessage::Request(request)
                    if bytes <= MAX_FAST_PATH_BYTES && self.is_brief(&request) =>
                {
                    let left = self.answer(request, bytes, next.ahead);
                    inline::clear(next.whose);
                    Incoming::Message(Box::new(JsonRpcMessage::Request(left?)), bytes)
                }
                other => Incoming::Message(Box::new(other), bytes),
            },
            invalid @ Incoming::Invalid(..) => invalid,
        };
        self.let_go();
        Some(incoming)
    }

    /// Has answers written that are held back.
    pub(super) fn let_go(&self) {
        if let Some(writer) = self.writer.upgrade() {
            writer.let_go();
        }
    }

    /// Blocks while the client takes no answers, unless `is_over`.
    pub(super) fn wait_for_room(&self, is_over: impl Fn() -> bool) {
        if let Some(writer) = self.writer.upgrade() {
            writer.wait_for_room(is_over);
        }
    }

    fn is_brief(&self, request: &Request) -> bool {
        let ClientRequest::CallToolRequest(call) = &request.request else { return false };
        self.handler.upgrade().is_some_and(|handler| handler.is_brief(&call.params))
    }

    /// Makes the call, unless nobody is there any more or too much is under way.
    fn answer(&self, mut request: Request, bytes: usize, ahead: usize) -> Option<Request> {
        let Some((handler, writer)) = self.handler.upgrade().zip(self.writer.upgrade()) else {
            return Some(request);
        };
        let Some(mut context) = handler.context(&request.id) else { return Some(request) };
        let begun =
            under_way::Request { bytes, stop: Some(context.ct.clone()), ..under_way::Request::default() };
        if self.under_way.begin(&request.id, begun).is_err() {
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
            under_way.end(&id).map(|_| answer)
        });
        let _inside = self.runtime.enter();
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => {
                if let Some(answer) = answer {
                    let _ = writer.hold(&answer, ahead);
                }
                drop(counted);
            }
            Poll::Pending => {
                writer.let_go();
                self.runtime.spawn(async move {
                    if let Some(answer) = call.await {
                        let _ = writer.post(&answer);
                    }
                    drop(counted);
                });
            }
        }
        None
    }
}
