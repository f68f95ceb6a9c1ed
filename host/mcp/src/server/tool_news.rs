//! Tells a client that there are other tools now, for as long as it can be told, and afterwards what it missed.

use std::sync::{Arc, Weak};

use rmcp::RoleServer;
use rmcp::service::Peer;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::snapshot::{ToolSnapshot, ToolSnapshots};
use haft_core::sync::Lock;

/// The news of one client.
#[derive(Debug, Default)]
pub(super) struct ToolNews {
    /// The tools that it knows or was told of last; nothing before it is told of any.
    seen: Arc<Lock<Option<Weak<ToolSnapshot>>>>,
    telling: Lock<Option<DropGuard>>,
}

impl ToolNews {
    /// Tells `peer` of changes from now on, and that there was one where it missed it, until `life` ends or
    /// [`ToolNews::end`].
    pub(super) fn tell(&self, snapshots: &ToolSnapshots, peer: Peer<RoleServer>, life: &CancellationToken) {
        let (end, seen, snapshots) = (life.child_token(), self.seen.clone(), snapshots.clone());
        *self.telling.lock() = Some(end.clone().drop_guard());
        tokio::spawn(async move {
            tokio::select! { () = tell(&snapshots, &peer, &seen) => {} () = end.cancelled() => {} }
        });
    }

    /// Tells nobody of anything any more.
    pub(super) fn end(&self) {
        self.telling.lock().take();
    }
}

async fn tell(snapshots: &ToolSnapshots, peer: &Peer<RoleServer>, seen: &Lock<Option<Weak<ToolSnapshot>>>) {
    let mut last = snapshots.now();
    let before = seen.lock().replace(Arc::downgrade(&last));
    // What is not there any more was replaced, and perhaps by the same.
    let is_other =
        |before: Weak<ToolSnapshot>| before.upgrade().is_none_or(|before| before.tools() != last.tools());
    if before.is_some_and(is_other) && peer.notify_tool_list_changed().await.is_err() {
        return;
    }
    while let Some(other) = snapshots.other_than(&last).await {
        *seen.lock() = Some(Arc::downgrade(&other));
        last = other;
        if peer.notify_tool_list_changed().await.is_err() {
            return;
        }
    }
}
