//! The report of `haft doctor` on workers on other machines, if the program uses NATS: the permissions of this user
//! at the server, and the connected workers. Calls no tool.

use haft::program::Program;
use serde::Serialize;

use super::{Line, Mark};
use haft_core::units::format_size;
use haft_mcp::client::{Endpoint, MAX_AGE, Server as Declared};
use haft_nats::{Health, StoreHealth, WorkerHealth};

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Workers {
    /// The program uses no NATS server.
    None,
    /// The server cannot be used, and the reason.
    Unusable(String),
    /// The state of the server.
    Found(Health),
}

impl Workers {
    pub(super) async fn gather(program: Option<&Program>) -> Self {
        let Some(gate) = program.and_then(|program| program.placement.gate()) else { return Self::None };
        match gate.health().await {
            Ok(health) => Self::Found(health),
            Err(error) => Self::Unusable(error.to_string()),
        }
    }

    pub(super) fn is_usable(&self) -> bool {
        match self {
            Self::None => true,
            Self::Unusable(_) => false,
            Self::Found(health) => health.stores.iter().all(|store| store.problem.is_none()),
        }
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        match self {
            Self::None => Vec::new(),
            Self::Unusable(why) => vec![Line::new(Mark::Bad, "NATS", why)],
            Self::Found(health) => of_health(health),
        }
    }
}

fn of_health(health: &Health) -> Vec<Line> {
    let program = format!("{}, program `{}` {}", health.server, health.program, health.digest);
    let none = health.workers.is_empty().then(|| {
        let text = "no worker runs this program with this program.lock; start one with `haft worker`";
        Line::new(Mark::Warning, "workers", text)
    });
    let workers = health.workers.iter().map(of_worker);
    [Line::new(Mark::Good, "NATS", program), storage(health)].into_iter().chain(none).chain(workers).collect()
}

/// Returns the reserved storage at the server, and its unavailable parts.
fn storage(health: &Health) -> Line {
    let size = |store: &StoreHealth| format!("{} {}", store.name, format_size(store.bytes));
    let all = health.stores.iter().map(size).collect::<Vec<_>>().join(", ");
    let sum = health.stores.iter().map(|store| store.bytes).fold(0, u64::saturating_add);
    let text = match health.storage_limit {
        Some(limit) => format!("{} of {} of this account: {all}", format_size(sum), format_size(limit)),
        None => format!("{} reserved: {all}", format_size(sum)),
    };
    let problem = |store: &StoreHealth| Some(format!("{}: {}", store.name, store.problem.as_ref()?));
    let problems: Vec<_> = health.stores.iter().filter_map(problem).collect();
    match (problems.is_empty(), health.storage_limit.is_some_and(|limit| sum > limit)) {
        (false, _) => Line::new(Mark::Bad, "storage", text).more(problems),
        (true, true) => Line::new(Mark::Warning, "storage", text)
            .more(["lower `[nats.storage]`, or raise the account's limit"]),
        (true, false) => Line::new(Mark::Good, "storage", text),
    }
}

fn of_worker(worker: &WorkerHealth) -> Line {
    let labels = worker.labels.join(", ");
    let labels = if labels.is_empty() { "without labels" } else { &labels };
    let text = format!(
        "{labels}, {} of {} places in use, tools: {}",
        worker.busy,
        worker.places,
        worker.tools.join(", ")
    );
    Line::new(Mark::Good, &worker.name, text)
}

// The program's MCP servers, as far as known without a start.

#[derive(Serialize)]
pub(super) struct Server {
    name: String,
    /// The program of the server, or its URL.
    at: Option<String>,
    /// The error that prevents the use of the server.
    problem: Option<String>,
    /// Number of tools at the last request.
    tools: Option<usize>,
    /// Hours since the last request.
    hours: Option<u64>,
}

/// Returns the enabled servers.
pub(super) fn list_servers(program: Option<&Program>) -> Vec<Server> {
    program
        .into_iter()
        .flat_map(|program| program.servers.iter())
        .map(|server| Server::from_declared(server))
        .collect()
}

impl Server {
    fn from_declared(server: &Declared) -> Self {
        let config = server.config();
        let at = match &config.endpoint {
            Endpoint::Stdio { .. } => config.program().ok().map(|path| path.display().to_string()),
            Endpoint::Http { url, .. } => Some(url.clone()),
        };
        let remembered = server.remembered();
        Self {
            name: config.name.clone(),
            at,
            problem: config.problem().map(|problem| problem.message().to_owned()),
            tools: remembered.as_ref().map(|(listed, _)| listed.tools.len()),
            hours: remembered.map(|(_, age)| age.as_secs() / 3600),
        }
    }

    pub(super) fn line(&self) -> Line {
        if let Some(problem) = &self.problem {
            return Line::new(Mark::Bad, &self.name, problem);
        }
        let at = self.at.as_deref().unwrap_or_default();
        let known = match (self.tools, self.hours) {
            (Some(1), _) => "1 tool at the last listing".to_owned(),
            (Some(count), Some(hours)) if hours < MAX_AGE.as_secs() / 3600 => {
                format!("{count} tools at the last listing")
            }
            (Some(count), _) => format!("{count} tools at the last listing, which is old"),
            (None, _) => "tools not listed yet; run `haft tools`".to_owned(),
        };
        Line::new(Mark::Good, &self.name, format!("{at}, {known}"))
    }
}
