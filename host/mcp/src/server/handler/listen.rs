//! Subscriptions of clients without a session (2026-07-28): a request that is answered when haft ends, and what changes
//! meanwhile.

use rmcp::model::{
    GetMeta, ServerNotification, SubscriptionFilter, SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams, SubscriptionsListenResult,
};

use super::{Answer, Handler};
use crate::server::conversation::Requester;
use crate::server::tool_news::{differences, notifications};

impl Handler {
    /// Tells the client of what it subscribes to, until it takes the request back or haft ends.
    pub(super) async fn listen(&self, filter: SubscriptionFilter, requester: Requester) -> Answer {
        let config = self.config();
        let accepted = filter.supported_by(&config.capabilities);
        let params = SubscriptionsAcknowledgedNotificationParams::new(accepted.clone());
        let acknowledged = SubscriptionsAcknowledgedNotification::new(params);
        tell(&requester, ServerNotification::SubscriptionsAcknowledgedNotification(acknowledged));
        tokio::select! {
            () = self.tell_changes(&accepted, &requester) => {}
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
