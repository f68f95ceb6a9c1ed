//! The requests of a client that are not answered yet, counted.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

/// Requests of a client that are not answered yet. Guests take turns at a quarter of it; a client
/// with more has lost count, and every one holds memory.
pub(super) const MAX_UNDER_WAY: usize = 256;

/// Requests by their ids, with what ends those that rmcp knows nothing of.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<HashMap<RequestId, Option<CancellationToken>>>);

impl UnderWay {
    /// Notes a request; `false` where there are too many.
    pub(super) fn begin(&self, id: &RequestId, stop: Option<CancellationToken>) -> bool {
        let mut all = self.lock();
        let has_room = all.len() < MAX_UNDER_WAY;
        if has_room {
            all.insert(id.clone(), stop);
        }
        has_room
    }

    /// It is answered now; `false` where nobody wants the answer.
    pub(super) fn end(&self, id: &RequestId) -> bool {
        self.lock().remove(id).is_some()
    }

    /// It will not be answered: nobody wants that any more.
    pub(super) fn cancel(&self, id: &RequestId) {
        if let Some(stop) = self.lock().remove(id).flatten() {
            stop.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Option<CancellationToken>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
