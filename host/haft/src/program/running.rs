//! What a program that is served keeps running besides its calls: MCP servers, the programs of its agents, its backend. What
//! an earlier reading of the program left is ended in order once no call uses it any more; nothing that a call works with
//! is taken from it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Agents, Program, Servers};
use haft_core::sync::Lock;
use haft_mcp::server::http::Readiness;
use haft_nats::{Gate, SharedState};
use haft_sandbox::Backend;

/// What a program that is served keeps running, as it is read again and again. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Running(Arc<Lock<State>>);

#[derive(Debug, Default)]
struct State {
    servers: Servers,
    now: Arc<Parts>,
    /// Of earlier readings, each for as long as a call uses it.
    earlier: Vec<Arc<Parts>>,
    /// What sends calls to workers.
    gate: Option<Arc<Gate>>,
    /// What is shared with other replicas.
    shared: Option<Arc<SharedState>>,
}

/// What one reading of the program keeps running and the next does not take over.
#[derive(Debug, Default)]
struct Parts {
    /// Those with a program of their own.
    agents: Agents,
    backend: Option<Arc<dyn Backend>>,
}

/// How often an earlier reading is looked at that calls still use. Nobody waits for it.
const PAUSE: Duration = Duration::from_secs(1);

/// How often it is looked what is missing: sooner than any balancer asks.
const LOOK: Duration = Duration::from_millis(500);

impl Running {
    /// The MCP servers of the last reading.
    pub(super) fn servers(&self) -> Servers {
        self.0.lock().servers.clone()
    }

    /// What `program` runs, instead of what ran until now.
    pub(super) fn put(&self, program: &Program) {
        let parts = Parts { agents: program.agents.programs(), backend: program.backend.clone() };
        self.0.lock().gate = program.placement.gate().cloned();
        self.replace(program.servers.clone(), parts);
    }

    /// What it shares with other replicas, from now on.
    pub(super) fn share(&self, shared: Arc<SharedState>) {
        self.0.lock().shared = Some(shared);
    }

    /// What it lacks, before anything was looked at.
    pub fn readiness(&self) -> Readiness {
        let gate = self.0.lock().gate.is_some();
        let missing = gate.then(|| "workers have not been searched yet".to_owned()).into_iter().collect();
        Readiness { missing, notes: Vec::new() }
    }

    /// Tells `sender` what it lacks, from now on. Connects to NATS for that, where the program meets others there.
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

    /// Ends `old` once no call uses it. Calls end within their own time.
    async fn retire(self, old: Arc<Parts>) {
        while old.is_used() {
            tokio::time::sleep(PAUSE).await;
        }
        old.close().await;
        self.0.lock().earlier.retain(|own| !Arc::ptr_eq(own, &old));
    }

    /// Ends all that runs, at the same time and within a few seconds; of each reading the agents before the backend.
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

    /// Whether there are still tools of that reading, which only its snapshot and its calls have.
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
