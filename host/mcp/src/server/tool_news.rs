//! Tells a client that there are other tools now, for as long as it can be told, and afterwards what it missed.

use std::sync::{Arc, Weak};

use rmcp::model::{
    PromptListChangedNotification, ResourceListChangedNotification, ServerNotification,
    ToolListChangedNotification,
};

use super::conversation::Link;
use super::snapshot::{ToolSnapshot, ToolSnapshots};
use haft_core::sync::Lock;

/// The news of one client: the tools that it knows or was told of last. Nothing before them is told of.
#[derive(Debug, Default)]
pub(super) struct ToolNews(Lock<Option<Weak<ToolSnapshot>>>);

impl ToolNews {
    /// Notes that the client knows the tools of `snapshots`, unless it knew others before.
    pub(super) fn begin(&self, snapshots: &ToolSnapshots) {
        self.0.lock().get_or_insert_with(|| Arc::downgrade(&snapshots.now()));
    }

    /// Tells the client at `link` of every change, and first that there was one where it missed it. May be dropped and begun
    /// again; of several only one tells of a change.
    pub(super) async fn tell(&self, snapshots: &ToolSnapshots, link: &dyn Link) {
        let mut now = snapshots.now();
        loop {
            let before = self.0.lock().replace(Arc::downgrade(&now));
            if let Some(before) = before {
                // What is not there any more was replaced, and perhaps by the same.
                let all = Differences { tools: true, offers: !now.offers().is_empty() };
                let missed = before.upgrade().map_or(all, |before| differences(&before, &now));
                for notification in notifications(missed) {
                    link.tell(notification, false);
                }
            }
            let Some(other) = snapshots.other_than(&now).await else { return };
            now = other;
        }
    }
}

/// What clients see another of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Differences {
    tools: bool,
    /// Prompts or resources.
    offers: bool,
}

/// What differs between two snapshots.
pub(super) fn differences(before: &ToolSnapshot, after: &ToolSnapshot) -> Differences {
    Differences { tools: before.tools() != after.tools(), offers: before.offers() != after.offers() }
}

/// What a client is told of these differences.
pub(super) fn notifications(differs: Differences) -> impl Iterator<Item = ServerNotification> {
    let (tools, prompts, resources) = (
        ToolListChangedNotification::default(),
        PromptListChangedNotification::default(),
        ResourceListChangedNotification::default(),
    );
    let tools = differs.tools.then_some(ServerNotification::ToolListChangedNotification(tools));
    let offers = [
        ServerNotification::PromptListChangedNotification(prompts),
        ServerNotification::ResourceListChangedNotification(resources),
    ];
    tools.into_iter().chain(offers.into_iter().filter(move |_| differs.offers))
}
