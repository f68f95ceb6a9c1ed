//! Tells a client that there are other tools now, for as long as it can be told, and afterwards what it missed.

use std::sync::{Arc, Weak};

use rmcp::RoleServer;
use rmcp::service::{Peer, ServiceError};
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

/// What clients see another of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Differences {
    pub(super) tools: bool,
    /// Prompts or resources.
    pub(super) offers: bool,
}

/// What differs between two snapshots.
pub(super) fn differences(before: &ToolSnapshot, after: &ToolSnapshot) -> Differences {
    Differences { tools: before.tools() != after.tools(), offers: before.offers() != after.offers() }
}

async fn tell(snapshots: &ToolSnapshots, peer: &Peer<RoleServer>, seen: &Lock<Option<Weak<ToolSnapshot>>>) {
    let mut last = snapshots.now();
    let before = seen.lock().replace(Arc::downgrade(&last));
    if let Some(before) = before {
        // What is not there any more was replaced, and perhaps by the same.
        let all = Differences { tools: true, offers: !last.offers().is_empty() };
        let missed = before.upgrade().map_or(all, |before| differences(&before, &last));
        if tell_of(peer, missed).await.is_err() {
            return;
        }
    }
    while let Some(other) = snapshots.other_than(&last).await {
        *seen.lock() = Some(Arc::downgrade(&other));
        let differs = differences(&last, &other);
        last = other;
        if tell_of(peer, differs).await.is_err() {
            return;
        }
    }
}

async fn tell_of(peer: &Peer<RoleServer>, differs: Differences) -> Result<(), ServiceError> {
    if differs.tools {
        peer.notify_tool_list_changed().await?;
    }
    if differs.offers {
        peer.notify_prompt_list_changed().await?;
        peer.notify_resource_list_changed().await?;
    }
    Ok(())
}
