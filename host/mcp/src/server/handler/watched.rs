//! The resources of MCP servers that one client watches, and of which it has to be told that they have changed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rmcp::model::{ResourceUpdatedNotification, ResourceUpdatedNotificationParam, ServerNotification};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};
use tokio_util::task::AbortOnDropHandle;

use haft_core::sync::Lock;

/// Resources that one client watches.
const MAX_WATCHED: usize = 256;

/// The resources that a client watches, by the URIs that it knows.
#[derive(Debug, Default)]
pub(in crate::server) struct Watched {
    watching: Lock<HashMap<String, AbortOnDropHandle<()>>>,
    due: Arc<Due>,
}

/// The URIs of resources that have changed, and that the client was not told of yet.
#[derive(Debug, Default)]
struct Due {
    uris: Lock<BTreeSet<String>>,
    more: Notify,
}

impl Watched {
    /// Watches the resource `shown`, which its server calls `own`.
    ///
    /// # Errors
    /// The client watches too many.
    pub(super) fn add(
        &self,
        shown: String,
        own: String,
        updates: &broadcast::Sender<Arc<str>>,
    ) -> Result<(), String> {
        let mut watching = self.watching.lock();
        if watching.len() >= MAX_WATCHED && !watching.contains_key(&shown) {
            return Err(format!("a client watches at most {MAX_WATCHED} resources"));
        }
        let (mut updates, due, uri) = (updates.subscribe(), self.due.clone(), shown.clone());
        let hearing = async move {
            loop {
                match updates.recv().await {
                    Ok(changed) if *changed != *own => continue,
                    // What was missed may have been it.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
                due.uris.lock().insert(uri.clone());
                due.more.notify_one();
            }
        };
        watching.insert(shown, AbortOnDropHandle::new(tokio::spawn(hearing)));
        Ok(())
    }

    /// Watches it no more.
    pub(super) fn remove(&self, shown: &str) {
        self.watching.lock().remove(shown);
        self.due.uris.lock().remove(shown);
    }

    /// Tells of each change. Does not end.
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
