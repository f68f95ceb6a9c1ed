//! The state of a gate and its workers, for people.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_nats::Subscriber;
use serde::Serialize;
use serde_json::Value;
use tokio_stream::StreamExt;

use super::fleet::{Fleet, WorkerHealth};
use super::{Connected, Gate};
use crate::LinkError;
use crate::message::CONNECTION;
use crate::stores::{Kept, StoreHealth, account_limit};
use crate::subjects::ANY;
use haft_manifest::Label;

/// The state of a gate and the workers of its program.
#[derive(Clone, Debug, Serialize)]
pub struct Health {
    /// The server's name and version.
    pub server: String,
    /// The program and its digest.
    pub program: String,
    /// The digest that workers must share.
    pub digest: String,
    /// The stores at the server: those for calls, and those for replicas if they exist.
    pub stores: Vec<StoreHealth>,
    /// The storage limit of the account in bytes, if the server reports one.
    pub storage_limit: Option<u64>,
    /// The known workers.
    pub workers: Vec<WorkerHealth>,
}

/// The maximum number of missing tools in a message.
const MAX_TOLD: usize = 8;

impl Gate {
    /// Returns whether the gate has connected.
    pub fn is_connected(&self) -> bool {
        self.connected.initialized()
    }

    /// Returns problems that prevent calls, and other problems, one a line. Connects if necessary.
    pub async fn lacks(&self) -> (Vec<String>, Vec<String>) {
        let connected = match self.connected().await {
            Ok(connected) => connected,
            Err(error) => return (vec![error.to_string()], Vec::new()),
        };
        let (mut missing, mut notes) = (Vec::new(), Vec::new());
        if !connected.link.state().borrow().is_up || connected.is_server_silent.load(Ordering::Relaxed) {
            missing.push("NATS does not answer".to_owned());
        }
        let stores = connected.stores.lock().clone();
        if stores.is_empty() {
            missing.push("the storage in NATS has not been checked yet".to_owned());
        }
        for store in &stores {
            let Some(problem) = &store.problem else { continue };
            // Calls work without the other stores.
            let lines = if store.name == Kept::Claims.name() { &mut missing } else { &mut notes };
            lines.push(format!("NATS cannot store `{}`: {problem}", store.name));
        }
        let wanted = self.wanted.lock().since(0);
        let absent: Vec<_> = wanted.iter().filter(|wanted| self.fleet.places(wanted) == 0).collect();
        let is_alone = !wanted.is_empty() && absent.len() == wanted.len();
        let absent: BTreeSet<String> = absent
            .into_iter()
            .map(|wanted| format!("no worker labelled {} has `{}`", Label::listed(&wanted.on), wanted.tool))
            .collect();
        let lines = if is_alone { &mut missing } else { &mut notes };
        lines.extend(absent.into_iter().take(MAX_TOLD));
        (missing, notes)
    }

    /// Connects, waits a moment for workers to announce themselves, and returns the state.
    ///
    /// # Errors
    /// NATS cannot be used.
    pub async fn health(&self) -> Result<Health, LinkError> {
        self.gather().await?;
        let connected = self.connected().await?;
        let info = connected.link.client.server_info();
        let mut stores = Vec::new();
        for kept in Kept::OF_CALLS.into_iter().chain(Kept::OF_REPLICAS) {
            stores.push(kept.health(&connected.link).await);
        }
        let storage_limit = account_limit(&connected.link).await;
        Ok(Health {
            server: format!("{} {}", info.server_name, info.version),
            program: self.identity.program.clone(),
            digest: self.identity.digest.clone(),
            stores,
            storage_limit,
            workers: self.fleet.list(),
        })
    }
}

// Detects workers that are gone. The server reports the disconnection within milliseconds if this user may
// subscribe to its system account; otherwise the worker's silence shows it, unless the server is silent too.

/// Interval of checks for silence.
const LOOK: Duration = Duration::from_millis(100);

/// A delay of a check that shows that this process itself was suspended.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// Additional silence of a worker after the server was asked whether the worker is available: a delayed beat has
/// arrived by then.
const CONFIRMING: Duration = Duration::from_millis(500);

/// Receives the events of the server about closed connections.
pub(super) async fn listen(fleet: Arc<Fleet>, mut messages: Subscriber) {
    while let Some(message) = messages.next().await {
        let Ok(event) = serde_json::from_slice::<Value>(&message.payload) else { continue };
        let name = event.pointer("/client/name").and_then(Value::as_str);
        if let Some(instance) = name.and_then(|name| name.strip_prefix(CONNECTION)) {
            fleet.gone(|worker| worker.instance == instance);
        }
    }
}

/// Checks for silent workers, except while the server is silent, the connection is down, or this process was
/// suspended.
pub(super) async fn sweep(fleet: Arc<Fleet>, connected: Arc<Connected>) {
    let state = connected.link.state();
    let (mut last, mut made) = (Instant::now(), 0);
    loop {
        tokio::time::sleep(LOOK).await;
        let now = *state.borrow();
        if !now.is_up || now.made != made || last.elapsed() > STOOD_STILL {
            fleet.was_deaf();
        } else if !fleet.silent().is_empty() {
            let (answered, ()) = tokio::join!(
                // The server itself answers on a subject without subscribers.
                tokio::time::timeout(CONFIRMING, connected.is_heard(ANY, connected.subjects.nobody())),
                tokio::time::sleep(CONFIRMING)
            );
            let is_silent = !matches!(answered, Ok(Some(_)));
            connected.is_server_silent.store(is_silent, Ordering::Relaxed);
            if is_silent {
                fleet.was_deaf();
            } else {
                fleet.sweep();
            }
        }
        (last, made) = (Instant::now(), now.made);
    }
}
