//! The resources of MCP servers that one client watches. The client gets notifications of their changes.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use rmcp::model::{ResourceUpdatedNotification, ResourceUpdatedNotificationParam, ServerNotification};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};
use tokio_util::task::AbortOnDropHandle;

use haft_core::sync::Lock;

/// Maximum number of resources that one client watches.
const MAX_WATCHED: usize = 256;

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
    use super::*;

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
