//! What clients are told of other tools, prompts and resources: those with a session or connection for as long as it lasts,
//! and those without (2026-07-28) by a subscription, a request that is answered when haft ends.

use std::sync::{Arc, Weak};

use rmcp::model::{
    GetMeta, PromptListChangedNotification, ResourceListChangedNotification, ServerNotification,
    SubscriptionFilter, SubscriptionsAcknowledgedNotification, SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenResult, ToolListChangedNotification,
};

use super::watched::Watched;
use super::{Answer, Handler};
use crate::server::conversation::{Link, Requester};
use crate::server::snapshot::{ToolSnapshot, ToolSnapshots};
use haft_core::sync::Lock;

/// The news of one client: the tools that it knows or was told of last. Nothing before them is told of.
#[derive(Debug, Default)]
pub(in crate::server) struct ToolNews(Lock<Option<Weak<ToolSnapshot>>>);

/// What clients see another of.
#[derive(Clone, Copy, Debug)]
struct Differences {
    tools: bool,
    /// Prompts or resources.
    offers: bool,
}

impl ToolNews {
    /// Notes that the client knows the tools of `snapshots`, unless it knew others before.
    pub(in crate::server) fn begin(&self, snapshots: &ToolSnapshots) {
        self.0.lock().get_or_insert_with(|| Arc::downgrade(&snapshots.now()));
    }

    /// Tells the client at `link` of every change, and first that there was one where it missed it. May be dropped and begun
    /// again; of several only one tells of a change.
    pub(in crate::server) async fn tell(&self, handler: &Handler, link: &dyn Link) {
        let snapshots = &handler.shared.snapshots;
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
            let other = tokio::select! {
                other = snapshots.other_than(&now) => other,
                () = handler.watched.tell(|update| {
                    link.tell(update, false);
                }) => None,
            };
            let Some(other) = other else { return };
            now = other;
        }
    }
}

impl Handler {
    /// Tells the client of what it subscribes to, until it takes the request back or haft ends.
    pub(super) async fn listen(&self, filter: SubscriptionFilter, requester: Requester) -> Answer {
        let config = self.config();
        let accepted = filter.supported_by(&config.capabilities);
        let params = SubscriptionsAcknowledgedNotificationParams::new(accepted.clone());
        let acknowledged = SubscriptionsAcknowledgedNotification::new(params);
        tell(&requester, ServerNotification::SubscriptionsAcknowledgedNotification(acknowledged));
        let watched = Watched::default();
        for uri in accepted.resource_subscriptions.iter().flatten() {
            // What cannot be watched is told of as never changed.
            if let Err(error) = Box::pin(self.watch(&watched, uri, &requester)).await {
                tracing::debug!(%error, "cannot subscribe to a resource");
            }
        }
        tokio::select! {
            () = self.tell_changes(&accepted, &requester) => {}
            () = watched.tell(|update| tell(&requester, update)) => {}
            () = requester.cancel.cancelled() => {}
            () = self.shared.calls.closed() => {}
        }
        let mut result = SubscriptionsListenResult::complete(requester.id);
        result.meta.set_server_info(config.server_info);
        Ok(result.into())
    }

    async fn tell_changes(&self, accepted: &SubscriptionFilter, requester: &Requester) {
        let mut seen = self.shared.snapshots.now();
        while let Some(other) = self.shared.snapshots.other_than(&seen).await {
            let changes = notifications(differences(&seen, &other));
            changes.filter(|change| is_accepted(accepted, change)).for_each(|change| tell(requester, change));
            seen = other;
        }
        std::future::pending::<()>().await;
    }
}

/// What the client did not subscribe to it is not told.
fn is_accepted(accepted: &SubscriptionFilter, change: &ServerNotification) -> bool {
    let kind = match change {
        ServerNotification::ToolListChangedNotification(_) => accepted.tools_list_changed,
        ServerNotification::PromptListChangedNotification(_) => accepted.prompts_list_changed,
        ServerNotification::ResourceListChangedNotification(_) => accepted.resources_list_changed,
        _ => None,
    };
    kind == Some(true)
}

/// Sends a notification of the subscription that is the request of `requester`.
fn tell(requester: &Requester, mut notification: ServerNotification) {
    notification.get_meta_mut().set_subscription_id(requester.id.clone());
    requester.link.tell(notification, false);
}

/// What differs between two snapshots.
fn differences(before: &ToolSnapshot, after: &ToolSnapshot) -> Differences {
    Differences { tools: before.tools() != after.tools(), offers: before.offers() != after.offers() }
}

/// What a client is told of these differences.
fn notifications(differs: Differences) -> impl Iterator<Item = ServerNotification> {
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
