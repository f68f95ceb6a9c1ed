//! Limits the open requests of a server to haft, over any transport: at the limit, nothing more is read from the
//! server until haft's answers are written. A server that sends requests and reads no answer blocks only itself.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotificationParam, ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::Transport;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of open requests of one server. Servers have one or two beside each call.
pub(super) const MAX_OPEN: usize = 64;

/// A transport that limits unanswered requests by not reading more.
pub(super) struct Bounded<T> {
    transport: T,
    room: Arc<Semaphore>,
    /// The permit of the next message, in case it is a request.
    place: Option<OwnedSemaphorePermit>,
    /// The open requests by their ids. A server may use an id twice.
    open: HashMap<RequestId, Vec<OwnedSemaphorePermit>>,
}

impl<T> Bounded<T> {
    pub(super) fn new(transport: T) -> Self {
        let (room, open) = (Arc::new(Semaphore::new(MAX_OPEN)), HashMap::new());
        Self { transport, room, place: None, open }
    }

    /// Returns the place of a request with this id. The drop of the place ends the request.
    fn end(&mut self, id: Option<&RequestId>) -> Option<OwnedSemaphorePermit> {
        let id = id?;
        let places = self.open.get_mut(id)?;
        let place = places.pop();
        if places.is_empty() {
            self.open.remove(id);
        }
        place
    }

    /// Counts the server's requests and cancellations: rmcp does not answer a cancelled request.
    fn count(&mut self, message: &ServerJsonRpcMessage) {
        match message {
            ServerJsonRpcMessage::Request(request) => {
                self.open.entry(request.id.clone()).or_default().extend(self.place.take());
            }
            ServerJsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) = &notification.notification {
                    let CancelledNotificationParam { request_id, .. } = &cancelled.params;
                    drop(self.end(request_id.as_ref()));
                }
            }
            ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_) => {}
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Bounded<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let place = match &message {
            ClientJsonRpcMessage::Response(answer) => self.end(Some(&answer.id)),
            ClientJsonRpcMessage::Error(error) => self.end(error.id.as_ref()),
            ClientJsonRpcMessage::Request(_) | ClientJsonRpcMessage::Notification(_) => None,
        };
        let sending = self.transport.send(message);
        async move {
            let sent = sending.await;
            drop(place);
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        if self.place.is_none() {
            // The semaphore is never closed.
            self.place = self.room.clone().acquire_owned().await.ok();
        }
        let message = self.transport.receive().await?;
        self.count(&message);
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::task::{Context, Poll, Waker};

    use serde_json::json;

    use super::*;

    /// A server that has sent all of these messages, and reads nothing.
    struct Said(VecDeque<ServerJsonRpcMessage>);

    impl Transport<RoleClient> for Said {
        type Error = Infallible;

        fn send(
            &mut self,
            _: ClientJsonRpcMessage,
        ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
            std::future::pending()
        }

        async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
            self.0.pop_front()
        }

        async fn close(&mut self) -> Result<(), Infallible> {
            Ok(())
        }
    }

    fn asking(method: &str, id: usize) -> ServerJsonRpcMessage {
        let params = match method {
            "elicitation/create" => {
                json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}})
            }
            "sampling/createMessage" => json!({"messages": [], "maxTokens": 1}),
            _ => json!({}),
        };
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        serde_json::from_value(message).unwrap()
    }

    fn now<F: Future>(future: F) -> Option<F::Output> {
        match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn answer(id: usize) -> ClientJsonRpcMessage {
        serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "result": {}})).unwrap()
    }

    /// Endless requests of a server are not read before it reads answers; its other messages are read (Y5).
    #[test]
    fn a_server_that_reads_no_answers_is_read_no_more() {
        for method in ["roots/list", "ping", "sampling/createMessage", "elicitation/create", "x/unknown"] {
            for same in [false, true] {
                let messages = (0..2 * MAX_OPEN).map(|id| asking(method, if same { 0 } else { id }));
                let mut bounded = Bounded::new(Said(messages.collect()));
                let read = (0..2 * MAX_OPEN).map_while(|_| now(bounded.receive())).count();
                assert_eq!(read, MAX_OPEN, "{method}");
                let writing = bounded.send(answer(0));
                assert!(now(bounded.receive()).is_none(), "{method}: the answer is not written yet");
                drop(writing);
                assert!(now(bounded.receive()).is_some(), "{method}: there is room for one more");
                assert!(now(bounded.receive()).is_none(), "{method}");
            }
        }
    }

    /// A cancelled request of a server is not answered, and is no longer open.
    #[test]
    fn what_a_server_takes_back_is_open_no_more() {
        let back = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        let back: ServerJsonRpcMessage = serde_json::from_value(back).unwrap();
        let messages = (0..4 * MAX_OPEN).flat_map(|_| [asking("elicitation/create", 7), back.clone()]);
        let mut bounded = Bounded::new(Said(messages.collect()));
        for _ in 0..8 * MAX_OPEN {
            assert!(now(bounded.receive()).unwrap().is_some());
        }
        assert!(bounded.open.is_empty() && bounded.room.available_permits() + 1 >= MAX_OPEN);
    }
}
