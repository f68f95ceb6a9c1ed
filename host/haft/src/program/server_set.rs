//! The MCP servers of a program: their set, changes of their lists, and their shutdown.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use haft_mcp::client::{Config, Host, MAX_AGE, Server};

/// The servers of a program. Cheap to clone; the last one dropped kills what still runs.
#[derive(Clone, Debug, Default)]
pub struct Servers(pub(super) Vec<Tracked>);

#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub(super) server: Arc<Server>,
    /// The number of changes of its list at the load of the program.
    pub(super) changes: watch::Receiver<u64>,
}

impl Servers {
    /// Returns all of them, started or not, in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Server>> {
        self.0.iter().map(|own| &own.server)
    }

    /// Returns whether a queried server has no tools.
    pub fn are_empty(&self) -> bool {
        self.iter().any(|server| server.remembered().is_some_and(|(list, _)| list.tools.is_empty()))
    }

    /// Returns the servers whose list is unknown or outdated.
    pub(super) fn unknown(&self) -> Vec<Arc<Server>> {
        let unknown = |server: &&Arc<Server>| server.config().problem().is_none() && is_unknown(server);
        self.iter().filter(unknown).cloned().collect()
    }

    /// Returns the servers to query again in the background.
    pub(super) fn outdated(&self) -> Vec<Arc<Server>> {
        let outdated =
            |server: &&Arc<Server>| server.config().problem().is_none() && server.may_be_outdated();
        self.iter().filter(|server| !server.config().on_use).filter(outdated).cloned().collect()
    }

    /// Returns when the list of one of them differs from that at the program's load.
    pub async fn changed(&self) {
        let mut waiting = JoinSet::new();
        for mut changes in self.0.iter().map(|own| own.changes.clone()) {
            waiting.spawn(async move { changes.changed().await.is_ok() });
        }
        while let Some(changed) = waiting.join_next().await {
            if changed.is_ok_and(|changed| changed) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Returns the one that `config` and `host` would create again.
    pub(super) fn same(&self, config: &Config, host: &Host) -> Option<Arc<Server>> {
        self.iter().find(|server| server.is_same(config, host)).cloned()
    }

    /// Ends all that run, in order, at the same time and within a few seconds.
    pub async fn close(&self) {
        let mut closing = JoinSet::new();
        for server in self.iter() {
            let server = server.clone();
            closing.spawn(async move { server.close().await });
        }
        drop(closing.join_all().await);
    }
}

/// Returns whether the list of `server` is unknown or outdated.
pub(super) fn is_unknown(server: &Server) -> bool {
    server.remembered().is_none_or(|(_, age)| age > MAX_AGE && !server.config().on_use)
}
