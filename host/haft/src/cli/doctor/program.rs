//! The report of `haft doctor` on the program.toml in use, whose errors `haft check` lists, and, if it uses NATS, on workers on
//! other machines: the permissions of this user at the server, and the connected workers. Calls no tool.

use serde::Serialize;

use super::{Line, Mark};
use crate::cli::terminal::counted;
use haft::program::{Program, ProgramHook};
use haft_core::grant::Reach;
use haft_core::report::Report;
use haft_core::units::format_size;
use haft_mcp::client::{Endpoint, MAX_AGE, Server as Declared};
use haft_nats::{Health, StoreHealth, WorkerHealth};
use haft_plugin_host::{Engine, EngineOptions, LandlockState};

#[derive(Serialize)]
pub(super) struct Found {
    /// The path of the file. `None` if it does not exist.
    file: Option<String>,
    tools: usize,
    problems: usize,
    /// The error that prevents any use of the file.
    error: Option<String>,
    sandbox: Option<Rights>,
    hooks: Vec<Hook>,
}

/// A plugin that sees calls as a hook, with the number of tools.
#[derive(Serialize)]
struct Hook {
    name: String,
    tools: usize,
    absent: bool,
    #[serde(skip)]
    what: String,
}

#[derive(Serialize)]
struct Rights {
    mode: &'static str,
    write: Vec<String>,
    network: bool,
    unix_sockets: bool,
    hosts: Vec<String>,
    services: Vec<String>,
}

impl Found {
    pub(super) fn new(loaded: &anyhow::Result<Program>) -> Self {
        let nothing =
            Self { file: None, tools: 0, problems: 0, error: None, sandbox: None, hooks: Vec::new() };
        match loaded {
            Ok(program) => Self {
                file: Some(program.manifest.source.name().to_owned()).filter(|name| !name.is_empty()),
                tools: program.toolbox.entries().len(),
                problems: program.problems.len(),
                sandbox: Some(Rights::from_program(program)),
                hooks: program.hooks().map(Hook::new).collect(),
                ..nothing
            },
            Err(error) => match error.downcast_ref::<Report>() {
                Some(report) => Self { problems: report.problems().len(), error: first(report), ..nothing },
                None => Self { problems: 1, error: Some(format!("{error:#}")), ..nothing },
            },
        }
    }

    pub(super) fn is_right(&self) -> bool {
        self.problems == 0
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let file = self.file.as_deref().unwrap_or("none: the built-in tools only");
        let line = match (&self.error, self.problems) {
            (Some(error), _) => Line::new(Mark::Bad, "program.toml", format!("cannot be used: {error}")),
            (None, 0) => Line::new(Mark::Good, "program.toml", format!("{file}, {} tools", self.tools)),
            (None, count) => {
                let text = format!("{file}, {} tools, {}", self.tools, counted(count, "problem"));
                Line::new(Mark::Warning, "program.toml", text)
            }
        };
        let hint = (!self.is_right()).then_some("run `haft check` to see each problem and its place");
        let program = std::iter::once(line.hint(hint)).chain(self.sandbox.as_ref().map(Rights::line));
        program.chain(self.hooks.iter().map(Hook::line)).collect()
    }
}

impl Hook {
    fn new(hook: ProgramHook<'_>) -> Self {
        let ProgramHook { name, tools, is_absent } = hook;
        Self { name: name.to_owned(), tools, absent: is_absent, what: hook.to_string() }
    }

    fn line(&self) -> Line {
        let mark = if self.absent { Mark::Bad } else { Mark::Good };
        Line::new(mark, format!("hook {}", self.name), self.what.clone())
    }
}

fn first(report: &Report) -> Option<String> {
    report.problems().first().map(|problem| problem.message().to_owned())
}

impl Rights {
    fn from_program(program: &Program) -> Self {
        let grant = &program.grant;
        let write = match grant.writable() {
            Reach::Anywhere => vec!["/".to_owned()],
            Reach::Roots(roots) => roots.iter().map(|root| root.path().display().to_string()).collect(),
        };
        Self {
            mode: program.manifest.sandbox.mode.as_str(),
            write,
            network: grant.network(),
            unix_sockets: grant.unix_sockets(),
            hosts: grant.child_hosts().iter().map(ToString::to_string).collect(),
            services: grant.services().iter().map(ToString::to_string).collect(),
        }
    }

    fn line(&self) -> Line {
        let on = |is_on, single: &[String]| match single {
            _ if is_on => "on".to_owned(),
            [] => "off".to_owned(),
            single => single.join(", "),
        };
        let network = on(self.network, &self.hosts);
        let sockets = on(self.unix_sockets, &self.services);
        let text = format!("mode `{}`, network {network}, unix sockets {sockets}", self.mode);
        let mark = if self.write.iter().any(|root| root == "/") { Mark::Warning } else { Mark::Good };
        Line::new(mark, "commands", text).more([format!("write {}", self.write.join(", "))])
    }
}

// The confinement of plugins besides their preopened directories.

/// The kernel's part of the confinement.
#[derive(Serialize)]
pub(super) struct Plugins {
    landlock: &'static str,
    /// The missing part, and the reason.
    lacks: Option<String>,
}

const FULL: &str = "full";
const PARTIAL: &str = "partial";
const NONE: &str = "none";

impl Plugins {
    /// Reads the state from an engine that runs no plugin.
    pub(super) fn gather() -> Self {
        let state = Engine::new(&EngineOptions::default()).landlock_state();
        let landlock = match state {
            LandlockState::Full => FULL,
            LandlockState::Partial { .. } => PARTIAL,
            LandlockState::None { .. } => NONE,
        };
        Self { landlock, lacks: (landlock != FULL).then(|| state.to_string()) }
    }

    pub(super) fn line(&self) -> Line {
        let (mark, text) = match &self.lacks {
            None => (Mark::Good, "full: the kernel also blocks writing elsewhere"),
            Some(lacks) => (Mark::Warning, lacks.as_str()),
        };
        Line::new(mark, "second layer", text)
    }
}

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
