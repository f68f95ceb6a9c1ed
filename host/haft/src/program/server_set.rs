//! The MCP servers of a program, changes of their lists, and their shutdown.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use haft_mcp::client::{Config, Host, MAX_AGE, Server};

/// The servers of a program. Cheap to clone. The drop of the last clone kills the running servers.
#[derive(Clone, Debug, Default)]
pub struct Servers(pub(super) Vec<Tracked>);

#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub(super) server: Arc<Server>,
    /// The changes of the server's list since the load of the program.
    pub(super) changes: watch::Receiver<u64>,
}

impl Servers {
    /// Returns all servers, started or not, in the order of program.toml.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Server>> {
        self.0.iter().map(|own| &own.server)
    }

    /// Returns whether any server has listed no tools.
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

    /// Returns when the list of a server differs from its list at the load of the program.
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

    /// Returns the server with the configuration `config` and the host `host`, if any.
    pub(super) fn same(&self, config: &Config, host: &Host) -> Option<Arc<Server>> {
        self.iter().find(|server| server.is_same(config, host)).cloned()
    }

    /// Ends all running servers in order, concurrently and within a few seconds.
    pub async fn close(&self) {
        let closing = self.iter().cloned().map(|server| async move { server.close().await });
        drop(closing.collect::<JoinSet<_>>().join_all().await);
    }
}

/// Returns whether the list of `server` is unknown or outdated.
pub(super) fn is_unknown(server: &Server) -> bool {
    server.remembered().is_none_or(|(_, age)| age > MAX_AGE && !server.config().on_use)
}
