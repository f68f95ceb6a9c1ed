//! What a gate can say of its workers, for people.

use serde::Serialize;

use super::Gate;
use crate::error::LinkError;

/// What a gate knows of the workers of its program.
#[derive(Clone, Debug, Serialize)]
pub struct Health {
    /// The server's name and version.
    pub server: String,
    /// The program and its digest.
    pub program: String,
    /// The digest that workers have to agree on.
    pub digest: String,
    /// Whether claims can be made; why not, otherwise.
    pub claims: Result<(), String>,
    /// The workers that are there.
    pub workers: Vec<WorkerHealth>,
}

/// One worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerHealth {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// Calls that it runs at one time.
    pub places: u32,
    /// Of those in use.
    pub busy: u32,
    /// The names of its tools.
    pub tools: Vec<String>,
}

impl Gate {
    /// Connects, waits a moment for workers to say that they are there, and tells what was found.
    pub async fn health(&self) -> Result<Health, LinkError> {
        self.gather().await?;
        let connected = self.connected().await?;
        let info = connected.link.client.server_info();
        let claims = connected.link.claims().await.map(drop).map_err(|error| error.to_string());
        let workers = self.fleet.list().into_iter().map(|(worker, labels, places, busy, tools)| {
            let mut tools: Vec<String> = tools.into_iter().map(|tool| tool.def.name).collect();
            tools.sort_unstable();
            let labels = labels.iter().map(ToString::to_string).collect();
            WorkerHealth { name: worker.name, labels, places, busy, tools }
        });
        Ok(Health {
            server: format!("{} {}", info.server_name, info.version),
            program: self.identity.program.clone(),
            digest: self.identity.digest.clone(),
            claims,
            workers: workers.collect(),
        })
    }
}
