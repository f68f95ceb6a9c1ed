//! Notifications about changed tools, prompts and resources: to clients with a session or connection for its
//! duration, and to clients without one (2026-07-28) by a subscription, which is a request that is answered when
//! haft ends.

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

/// The notifications of one client: the tools that it knows or that the last notification was about. Earlier
/// changes are not reported.
#[derive(Debug, Default)]
pub(in crate::server) struct ToolNews(Lock<Option<Weak<ToolSnapshot>>>);

/// The changed lists.
#[derive(Clone, Copy, Debug)]
struct Differences {
    tools: bool,
    /// Prompts or resources.
    offers: bool,
}

impl ToolNews {
    /// Records that the client knows the tools of `snapshots`, unless it knew other tools before.
    pub(in crate::server) fn begin(&self, snapshots: &ToolSnapshots) {
        self.0.lock().get_or_insert_with(|| Arc::downgrade(&snapshots.now()));
    }

    /// Notifies the client at `link` of every change, first of a missed one. The future may be dropped and started
    /// again; of several futures only one reports a change.
    pub(in crate::server) async fn tell(&self, handler: &Handler, link: &dyn Link) {
        let snapshots = &handler.shared.snapshots;
        let mut now = snapshots.now();
        loop {
            let before = self.0.lock().replace(Arc::downgrade(&now));
            if let Some(before) = before {
                // A dropped snapshot was replaced, possibly by an equal one.
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
    /// Sends the notifications of a subscription, until the client cancels it or haft ends.
    pub(super) async fn listen(&self, filter: SubscriptionFilter, requester: Requester) -> Answer {
        let config = self.config();
        let accepted = filter.supported_by(&config.capabilities);
        let params = SubscriptionsAcknowledgedNotificationParams::new(accepted.clone());
        let acknowledged = SubscriptionsAcknowledgedNotification::new(params);
        tell(&requester, ServerNotification::SubscriptionsAcknowledgedNotification(acknowledged));
        let watched = Watched::default();
        for uri in accepted.resource_subscriptions.iter().flatten() {
            // A resource that cannot be watched never changes.
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

/// Returns whether the client subscribed to a notification.
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

/// Returns the differences of two snapshots.
fn differences(before: &ToolSnapshot, after: &ToolSnapshot) -> Differences {
    Differences { tools: before.tools() != after.tools(), offers: before.offers() != after.offers() }
}

/// Returns the notifications for these differences.
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
