//! The requests of a client that are not answered yet, by id, with a bound on their number and bytes.

use std::collections::HashMap;
use std::sync::MutexGuard;
use std::time::Instant;

use haft_core::sync::Lock;
use rmcp::model::RequestId;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Requests of a client that are not answered yet. Guests take turns at a quarter of it; a client
/// with more has lost count, and every one holds memory.
pub(super) const MAX_PENDING: usize = 256;

/// Bytes of all of them: four of the largest. One alone may always be there.
const MAX_BYTES: usize = 64 << 20;

/// Requests by their ids.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    all: Lock<HashMap<RequestId, (Instant, PendingRequest)>>,
    /// Notified when one is answered or cancelled.
    fewer: Notify,
}

/// Why a request is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AdmissionError {
    /// Another with this id is not answered yet.
    InUse,
    /// There are too many, or they are too long.
    Busy(String),
}

/// What is to be known of a request.
#[derive(Debug, Default)]
pub(super) struct PendingRequest {
    /// How long its line was.
    pub(super) bytes: usize,
    /// Cancels the call, where it does not run through rmcp.
    pub(super) stop: Option<CancellationToken>,
    /// Whether it is answered only when haft or the client ends it.
    pub(super) lasts: bool,
}

impl PendingRequests {
    /// Registers a request.
    ///
    /// # Errors
    /// Its id is in use, or too many requests or bytes are pending.
    pub(super) fn begin(&self, id: &RequestId, request: PendingRequest) -> Result<(), AdmissionError> {
        let mut all = self.lock();
        // Two of one id would count as one.
        if all.contains_key(id) {
            return Err(AdmissionError::InUse);
        }
        let busy = |what: String| Err(AdmissionError::Busy(format!("{what} under way: wait for answers")));
        if all.len() >= MAX_PENDING {
            return busy(format!("more than {MAX_PENDING} requests"));
        }
        let bytes: usize = all.values().map(|(_, request)| request.bytes).sum();
        if bytes > 0 && bytes + request.bytes > MAX_BYTES {
            return busy(format!("requests of more than {} MiB", MAX_BYTES >> 20));
        }
        all.insert(id.clone(), (Instant::now(), request));
        Ok(())
    }

    /// Removes a request that is answered; `None` where it was cancelled.
    pub(super) fn end(&self, id: &RequestId) -> Option<PendingRequest> {
        self.remove(id)
    }

    /// Removes and cancels a request.
    pub(super) fn cancel(&self, id: &RequestId) {
        if let Some(stop) = self.remove(id).and_then(|request| request.stop) {
            stop.cancel();
        }
    }

    /// Ends when every request is answered but those that last, and those that began before `since`.
    pub(super) async fn wait_until_answered(&self, since: Option<Instant>) {
        loop {
            // Registered before the check, so that no notification is missed.
            let fewer = self.fewer.notified();
            let is_waited_for = |(begun, request): &(Instant, PendingRequest)| {
                !request.lasts && since.is_none_or(|since| *begun >= since)
            };
            if !self.lock().values().any(is_waited_for) {
                return;
            }
            fewer.await;
        }
    }

    fn remove(&self, id: &RequestId) -> Option<PendingRequest> {
        let removed = self.lock().remove(id);
        self.fewer.notify_waiters();
        removed.map(|(_, request)| request)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, (Instant, PendingRequest)>> {
        self.all.lock()
    }
}
