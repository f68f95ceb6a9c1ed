//! Notifications about changed tools, prompts and resources: to clients with a session or connection for its
//! duration, and to clients without one (2026-07-28) by a subscription, which is a request that is answered when haft
//! ends. Also about changes of the resources of MCP servers that one client watches.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use rmcp::model::{
    GetMeta, PromptListChangedNotification, ResourceListChangedNotification, ResourceUpdatedNotification,
    ResourceUpdatedNotificationParam, ServerNotification, SubscriptionFilter,
    SubscriptionsAcknowledgedNotification, SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenResult, ToolListChangedNotification,
};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};
use tokio_util::task::AbortOnDropHandle;

use super::{Answer, Handler};
use crate::server::conversation::{Link, Requester};
use crate::server::snapshot::{ToolSnapshot, ToolSnapshots};
use haft_core::sync::Lock;

/// Maximum number of resources that one client watches.
const MAX_WATCHED: usize = 256;

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
                let all = Differences { tools: true, offers: !now.offers.is_empty() };
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
        // A watch may wait for its server: changes between the acknowledgement and its end are told too.
        let seen = self.shared.snapshots.now();
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
            () = self.tell_changes(seen, &accepted, &requester) => {}
            () = watched.tell(|update| tell(&requester, update)) => {}
            () = requester.cancel.cancelled() => {}
            () = self.shared.calls.closing.cancelled() => {}
        }
        let mut result = SubscriptionsListenResult::complete(requester.id);
        result.meta.set_server_info(config.server_info);
        Ok(result.into())
    }

    /// Notifies of changes since `seen`. Does not return.
    async fn tell_changes(
        &self,
        mut seen: Arc<ToolSnapshot>,
        accepted: &SubscriptionFilter,
        requester: &Requester,
    ) {
        while let Some(other) = self.shared.snapshots.other_than(&seen).await {
            let changes = notifications(differences(&seen, &other));
            changes.filter(|change| is_accepted(accepted, change)).for_each(|change| tell(requester, change));
            seen = other;
        }
        std::future::pending::<()>().await;
    }
}

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

fn differences(before: &ToolSnapshot, after: &ToolSnapshot) -> Differences {
    Differences { tools: before.tools != after.tools, offers: before.offers != after.offers }
}

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

/// The resources that a client watches, by the URIs that it knows.
#[derive(Debug, Default)]
pub(in crate::server) struct Watched {
    watching: Lock<HashMap<String, Watch>>,
    due: Arc<Due>,
}

/// The task that notifies a client of a resource, and its share of the server's subscription.
type Watch = (AbortOnDropHandle<()>, Arc<()>);

/// A server and the original URI of one of its resources.
type OwnUri = (String, String);

/// The resources that some client watches, by the names of their servers and the URIs of those. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Watchers(Arc<Lock<HashMap<OwnUri, Weak<()>>>>);

impl Watchers {
    /// Returns whether some client watches the resource `own` of `server`.
    pub(super) fn has(&self, server: &str, own: &str) -> bool {
        let all = self.0.lock();
        all.get(&(server.to_owned(), own.to_owned())).is_some_and(|watching| watching.strong_count() > 0)
    }

    /// Joins a subscription until the returned value is dropped.
    fn join(&self, server: &str, own: &str) -> Arc<()> {
        let mut all = self.0.lock();
        all.retain(|_, watching| watching.strong_count() > 0);
        let watching = all.entry((server.to_owned(), own.to_owned())).or_default();
        watching.upgrade().unwrap_or_else(|| {
            let first = Arc::new(());
            *watching = Arc::downgrade(&first);
            first
        })
    }
}

/// The URIs of changed resources that the client was not notified of yet.
#[derive(Debug, Default)]
struct Due {
    uris: Lock<BTreeSet<String>>,
    more: Notify,
}

impl Watched {
    /// Watches the resource `shown`, whose URI at `server` is `own`, as one of `watchers`.
    ///
    /// # Errors
    /// The client watches too many resources.
    pub(super) fn add(
        &self,
        shown: String,
        (server, own): (&str, String),
        updates: &broadcast::Sender<Arc<str>>,
        watchers: &Watchers,
    ) -> Result<(), String> {
        let mut watching = self.watching.lock();
        if watching.len() >= MAX_WATCHED && !watching.contains_key(&shown) {
            return Err(format!("a client may subscribe to at most {MAX_WATCHED} resources"));
        }
        let watcher = watchers.join(server, &own);
        let (mut updates, due, uri) = (updates.subscribe(), self.due.clone(), shown.clone());
        let hearing = async move {
            loop {
                match updates.recv().await {
                    Ok(changed) if *changed != *own => continue,
                    // A missed message may have been about this resource.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
                due.uris.lock().insert(uri.clone());
                due.more.notify_one();
            }
        };
        watching.insert(shown, (AbortOnDropHandle::new(tokio::spawn(hearing)), watcher));
        Ok(())
    }

    /// Ends the watch of the resource `shown`.
    pub(super) fn remove(&self, shown: &str) {
        self.watching.lock().remove(shown);
        self.due.uris.lock().remove(shown);
    }

    /// Reports each change. Does not return.
    pub(super) async fn tell(&self, tell: impl Fn(ServerNotification)) {
        loop {
            let next = self.due.uris.lock().pop_first();
            match next {
                Some(uri) => {
                    let param = ResourceUpdatedNotificationParam::new(uri);
                    let update = ResourceUpdatedNotification::new(param);
                    tell(ServerNotification::ResourceUpdatedNotification(update));
                }
                None => self.due.more.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use rmcp::model::{ElicitRequestParams, ElicitResult, RequestId, RequestMetaObject};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::server::handler::ServerShared;
    use crate::server::snapshot::Publisher;
    use crate::server::snapshot::tests::snapshot;
    use haft_core::trace::Wire;

    /// A link whose client gets other tools during the first notification.
    struct Changing(Publisher, Lock<Vec<ServerNotification>>);

    #[async_trait]
    impl Link for Changing {
        fn tell(&self, notification: ServerNotification, _: bool) -> bool {
            let mut told = self.1.lock();
            if told.is_empty() {
                self.0.publish(snapshot(&["other"]));
            }
            told.push(notification);
            true
        }

        async fn ask(&self, _: ElicitRequestParams) -> Result<ElicitResult, String> {
            Err("nobody is there".to_owned())
        }
    }

    /// No change since the acknowledgement is lost.
    #[tokio::test]
    async fn a_change_while_a_subscription_begins_is_told() {
        let (publisher, snapshots) = Publisher::new(snapshot(&["own"]));
        let handler = ServerShared::new(snapshots, "test", Wire::Http).handler();
        let link = Arc::new(Changing(publisher, Lock::default()));
        let requester = Requester {
            id: RequestId::Number(1),
            meta: RequestMetaObject::default(),
            cancel: CancellationToken::new(),
            session: None,
            parameters: None,
            board: None,
            link: link.clone(),
        };
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        tokio::select! {
            biased;
            _ = handler.listen(filter, requester) => panic!("nobody has ended it"),
            () = std::future::ready(()) => {}
        }
        let told = link.1.lock();
        assert!(
            matches!(told.as_slice(), [_, ServerNotification::ToolListChangedNotification(_)]),
            "{told:?}"
        );
    }

    /// A server reports a resource as long as a client watches it.
    #[tokio::test]
    async fn a_resource_is_watched_until_its_last_client_is_gone() {
        let (watchers, updates) = (Watchers::default(), broadcast::Sender::new(1));
        let (one, two) = (Watched::default(), Watched::default());
        for watched in [&one, &one, &two] {
            watched.add("shown".to_owned(), ("server", "own".to_owned()), &updates, &watchers).unwrap();
        }
        one.add("more".to_owned(), ("server", "more".to_owned()), &updates, &watchers).unwrap();
        one.remove("shown");
        assert!(watchers.has("server", "own") && !watchers.has("other", "own"));
        drop(two);
        assert!(!watchers.has("server", "own") && watchers.has("server", "more"));
    }
}
