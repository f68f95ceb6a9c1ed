//! A sent request that is not answered yet. Sends only its cancellation.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ServerResult;
use rmcp::service::RequestHandle;
use rmcp::{RoleClient, ServiceError};
use tokio::time::timeout;

use super::calls::Ongoing;
use super::child::Child;

/// Time limit for writing the notification that a request is cancelled.
const CANCEL: Duration = Duration::from_secs(2);

/// A request that was sent. Dropped before its answer, it is cancelled.
pub(super) struct PendingResponse {
    /// The server, if it is a child.
    child: Option<Arc<Child>>,
    handle: Option<RequestHandle<RoleClient>>,
    /// The call that the request makes, if it makes one. Its drop ends the call.
    _call: Option<Arc<Ongoing>>,
}

impl PendingResponse {
    pub(super) fn new(
        child: Option<Arc<Child>>,
        handle: RequestHandle<RoleClient>,
        call: Option<Arc<Ongoing>>,
    ) -> Self {
        Self { child, handle: Some(handle), _call: call }
    }

    /// Returns the answer; `None` if the connection closed.
    pub(super) async fn answer(&mut self) -> Option<Result<ServerResult, ServiceError>> {
        (&mut self.handle.as_mut()?.rx).await.ok()
    }

    /// Marks the request as answered: dropping it cancels nothing.
    pub(super) fn mark_answered(&mut self) {
        self.handle = None;
    }

    /// Sends a cancel notification; a late answer is ignored.
    pub(super) fn cancel(&mut self, reason: &'static str) {
        let Some(handle) = self.handle.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let child = self.child.as_ref().map(Arc::downgrade);
        runtime.spawn(async move {
            let cancelled = timeout(CANCEL, handle.cancel(Some(reason.to_owned()))).await;
            // A server that reads nothing is stuck: it is stopped, and the next call starts it again.
            if cancelled.is_err()
                && let Some(child) = child.and_then(|child| child.upgrade())
                && child.wire.is_stuck()
            {
                child.life.stop();
            }
        });
    }
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        self.cancel("the caller is gone");
    }
}
