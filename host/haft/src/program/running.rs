//! The resources of a served program that outlive a call: MCP servers, the programs of its agents, its backend.
//! Resources of an earlier reading of the program are closed once no call uses them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Agents, Program, Servers};
use haft_core::sync::Lock;
use haft_mcp::server::http::Readiness;
use haft_nats::{Gate, SharedState};
use haft_sandbox::Backend;

/// The running resources of all readings of a served program. Clones share the resources.
#[derive(Clone, Debug, Default)]
pub struct Running(Arc<Lock<State>>);

#[derive(Debug, Default)]
struct State {
    servers: Servers,
    now: Arc<Parts>,
    /// The resources of earlier readings, each until no call uses it.
    earlier: Vec<Arc<Parts>>,
    /// The gate to workers.
    gate: Option<Arc<Gate>>,
    /// The state shared with other replicas.
    shared: Option<Arc<SharedState>>,
}

/// The resources of one reading that the next reading does not take over.
#[derive(Debug, Default)]
struct Parts {
    /// The agents with their own programs.
    agents: Agents,
    backend: Option<Arc<dyn Backend>>,
}

/// Interval of checking an earlier reading that calls still use.
const PAUSE: Duration = Duration::from_secs(1);

/// Interval of checking readiness: shorter than that of any load balancer.
const LOOK: Duration = Duration::from_millis(500);

impl Running {
    /// Returns the MCP servers of the last reading.
    pub(super) fn servers(&self) -> Servers {
        self.0.lock().servers.clone()
    }

    /// Replaces the resources by those of `program`.
    pub(super) fn put(&self, program: &Program) {
        let parts = Parts { agents: program.agents.programs(), backend: program.backend.clone() };
        self.0.lock().gate = program.placement.gate().cloned();
        self.replace(program.servers.clone(), parts);
    }

    /// Sets the state shared with other replicas.
    pub(super) fn share(&self, shared: Arc<SharedState>) {
        self.0.lock().shared = Some(shared);
    }

    /// Returns the missing parts of the program before the first check.
    pub fn readiness(&self) -> Readiness {
        let gate = self.0.lock().gate.is_some();
        let missing = gate.then(|| "workers have not been searched yet".to_owned()).into_iter().collect();
        Readiness { missing, notes: Vec::new() }
    }

    /// Sends the missing parts of the program to `sender`, with updates. Connects to NATS if the program uses it.
    pub async fn watch_readiness(self, sender: watch::Sender<Readiness>) {
        let mut was_told = false;
        while !sender.is_closed() {
            let (gate, shared) = {
                let state = self.0.lock();
                (state.gate.clone(), state.shared.clone())
            };
            let mut readiness = Readiness::default();
            if let Some(gate) = &gate {
                (readiness.missing, readiness.notes) = gate.lacks().await;
            }
            if let Some(shared) = shared {
                readiness.notes.extend(shared.problem().await);
            }
            if let Some(line) = readiness.missing.first()
                && gate.is_some_and(|gate| !gate.is_connected())
                && !std::mem::replace(&mut was_told, true)
            {
                tracing::warn!("{line}");
            }
            sender.send_if_modified(|last| std::mem::replace(last, readiness.clone()) != readiness);
            tokio::time::sleep(LOOK).await;
        }
    }

    fn replace(&self, servers: Servers, parts: Parts) {
        let mut state = self.0.lock();
        state.servers = servers;
        let old = std::mem::replace(&mut state.now, Arc::new(parts));
        if !old.is_empty() {
            state.earlier.push(old.clone());
            tokio::spawn(self.clone().retire(old));
        }
    }

    /// Ends `old` once no call uses it. The time limits of calls bound the wait.
    async fn retire(self, old: Arc<Parts>) {
        while old.is_used() {
            tokio::time::sleep(PAUSE).await;
        }
        old.close().await;
        self.0.lock().earlier.retain(|own| !Arc::ptr_eq(own, &old));
    }

    /// Ends all running resources concurrently, within a few seconds; of each reading the agents before the backend.
    pub async fn close(&self) {
        let (servers, parts) = {
            let state = self.0.lock();
            (state.servers.clone(), state.earlier.iter().chain([&state.now]).cloned().collect::<Vec<_>>())
        };
        let mut closing = JoinSet::new();
        closing.spawn(async move { servers.close().await });
        for parts in parts {
            closing.spawn(async move { parts.close().await });
        }
        drop(closing.join_all().await);
    }
}

impl Parts {
    fn is_empty(&self) -> bool {
        self.agents.is_empty() && self.backend.is_none()
    }

    /// Returns whether tools of the reading exist outside of `Parts`: in a snapshot or in calls.
    fn is_used(&self) -> bool {
        let is_shared = |backend: &Arc<dyn Backend>| Arc::strong_count(backend) > 1;
        self.agents.are_used() || self.backend.as_ref().is_some_and(is_shared)
    }

    async fn close(&self) {
        self.agents.close().await;
        if let Some(backend) = &self.backend {
            backend.close().await;
        }
    }
}

#[cfg(test)]
mod tests;
