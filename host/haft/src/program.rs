//! A program: builds a toolbox from program.toml, the directories of this machine and the command line. Decides
//! nothing about a single call.

mod agents;
mod allow;
mod backend;
mod children;
mod chosen_tools;
mod contribution;
mod dirs;
mod family;
mod grants;
mod guidance;
mod install_context;
mod live;
mod loaded;
mod logins;
mod machines;
mod options;
mod output;
mod packages;
mod patterns;
mod plugins;
mod provider;
mod renewal;
mod replicas;
mod rights;
mod running;
mod server_pins;
mod server_set;
mod servers;
mod skill_servers;
mod start_up;
pub mod telemetry;
mod trust;
mod under;
mod upstream;
mod worker_servers;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

pub use self::agents::Agents;
pub use self::allow::{Allow, AllowError};
pub use self::children::command_spec;
use self::chosen_tools::Watching;
use self::contribution::{Contribution, Merged};
pub use self::dirs::Dirs;
pub use self::family::FILE_NAME;
pub use self::grants::{is_of_system, usual_rights, widening, wrapped};
pub use self::guidance::Guidance;
pub use self::install_context::{InstallContext, command_tools};
pub use self::live::{Live, News, ToolChoice};
use self::loaded::Loaded;
pub use self::loaded::use_network;
pub use self::machines::{Machines, NatsServer, Placement};
pub use self::options::{Ask, Options, Target};
pub use self::output::read_output;
use self::patterns::Unseen;
pub use self::patterns::{Idle, Why};
pub use self::plugins::{ProgramHook, builtin, builtin_names, described};
pub use self::provider::{Listed, ModelChoice};
use self::rights::Rights;
pub use self::running::Running;
pub use self::server_pins::{Agreed, FirstList, PinRecord};
pub use self::server_set::Servers;
pub use self::skill_servers::skill_servers;
use self::trust::LeftOut;
pub use self::trust::{Agreement, Known, Trust, Untrusted};
pub use self::under::Under;
use haft_agent::{Begun, Sessions};
use haft_core::event::Events;
use haft_core::grant::Grant;
use haft_core::report::{Problem, Report};
use haft_core::secret::Redactor;
use haft_core::skill::Shelved;
use haft_core::tool::{Session, Toolbox, Widening};
use haft_core::trace::Trace;
use haft_journal::{self as journal, Journal};
use haft_manifest::{Manifest, Secrets, ToolPattern};
use haft_nats::{Identity, LinkError, Reading, Server, Shipper, Worker, WorkerSettings};
use haft_sandbox::Backend;
use haft_sandbox::confine::Confiner;

/// A program, ready to run.
#[derive(Debug)]
pub struct Program {
    /// The parsed program.toml.
    pub manifest: Manifest,
    /// The available tools of the program.
    pub toolbox: Toolbox,
    /// The rights of the built-in tools, `bash` and commands.
    pub grant: Grant,
    /// Confines `bash` and commands.
    pub confiner: Confiner,
    /// Problems that do not affect the rest of the program; `haft check` has reported them.
    pub problems: Vec<Problem>,
    /// Exports of plugins that cannot be called, one line each, with the reason.
    pub uncallable: Vec<String>,
    /// Redacts answers, events and the journal. Knows the secrets that program.toml names.
    pub redactor: Redactor,
    /// The backend that commands run on; `None` for this machine.
    pub backend: Option<Arc<dyn Backend>>,
    /// Whether commands run without a pane and neither program.toml nor the command line decides that.
    pub is_without_pane: bool,
    /// The journal of calls.
    pub journal: Journal,
    /// The trace recorder of calls.
    pub trace: Trace,
    /// The MCP servers whose tools are in the toolbox.
    pub servers: Servers,
    /// The agents that the model may call as tools.
    pub agents: Agents,
    /// MCP servers whose first list waits for consent. Their tools are omitted.
    pub first_lists: Vec<FirstList>,
    /// Notices for the user about completed actions of the load, one a line.
    pub notices: Vec<String>,
    /// Whether all sources of tools were loaded.
    pub is_complete: bool,
    /// The files that define the program, including missing ones.
    pub files: Vec<PathBuf>,
    /// Possible further tools.
    unseen: Unseen,
    /// The placement of the tools, and the gate to workers.
    pub placement: Placement,
    /// The requested permissions, and the user's agreement.
    pub agreement: Agreement,
    /// The parts omitted without agreement.
    left_out: LeftOut,
    /// The identity that gates and workers of the program must share.
    pub identity: Identity,
    machines: Machines,
    /// The hooks that see the calls of the tools.
    hooks: Vec<Watching>,
    dirs: Dirs,
    /// The skills of installed packages and of MCP servers.
    skills: Vec<Shelved>,
    /// The value of [`Self::guidance`], once read.
    guidance: OnceLock<Guidance>,
}

impl Program {
    /// Creates a program in three steps: its files (`Loaded`), its rights (`Rights`), and the contribution of each
    /// source of tools (`Contribution`). Fails if program.toml is invalid; a plugin that cannot be loaded is one of
    /// [`Self::problems`].
    pub async fn load(options: &Options) -> anyhow::Result<Self> {
        // Boxed, because this future is large and would be a part of the future of every verb.
        Box::pin(Self::loaded(options)).await
    }

    async fn loaded(options: &Options) -> anyhow::Result<Self> {
        let all = options.all_for_agents();
        let options = all.as_ref().unwrap_or(options);
        let loaded = Loaded::read(options).await?;
        let (trace, unsent) = telemetry::of(&loaded).await;
        let (installed, unusable) = packages::installed(&loaded);
        let target = backend::chosen(&loaded.manifest, options, &loaded.dirs);
        let (rights, problems) = Rights::resolve(options, &loaded, &installed, target, &trace)?;
        let (rights, problems) = rights::with_secrets(rights, problems).await;
        let known = Contribution {
            problems: [loaded.problems(options), unsent.into_iter().collect(), unusable, problems].concat(),
            files: loaded.files(),
            unseen: packages::unseen(&loaded, &installed),
            ..Contribution::default()
        };
        let (merged, agents) = sources(&rights, known).await?;
        let Merged { toolbox, rest } = merged;
        let mut unseen = rest.unseen;
        unseen.extend(rest.held.iter().cloned());
        let skills = packages::skills(&loaded.manifest, &installed).into_iter().chain(rest.skills).collect();
        let Rights { grant, confiner, placement, .. } = rights;
        drop(installed);
        let Loaded { dirs, manifest, lock, redactor, agreement, left_out, .. } = loaded;
        let toolbox = toolbox.withholding(left_out.unseen.iter().cloned().chain(rest.held));
        let toolbox = toolbox.ruled(&chosen_tools::rules(&manifest, &dirs.home));
        Ok(Self {
            toolbox: chosen_tools::hooked(&toolbox, &rest.hooks),
            grant,
            confiner,
            problems: rest.problems,
            uncallable: rest.uncallable,
            redactor,
            backend: rest.backend,
            is_without_pane: backend::is_without_pane(&manifest, &options.target),
            journal: if options.no_journal { Journal::default() } else { journal(&manifest, &dirs) },
            trace,
            servers: rest.servers,
            agents,
            first_lists: rest.first_lists,
            notices: rest.notices,
            is_complete: !rest.is_partial,
            files: rest.files,
            unseen,
            placement,
            agreement,
            left_out,
            identity: machines::identity(&manifest, &lock),
            machines: options.machines.clone(),
            hooks: rest.hooks,
            dirs,
            skills,
            guidance: OnceLock::new(),
            manifest,
        })
    }

    /// Returns whether missing agreement omits `tool` or changes its rights.
    pub fn is_withheld(&self, tool: &str) -> bool {
        let names = |(prefix, _): &(String, String)| tool.starts_with(prefix.as_str());
        let is_there = self.toolbox.find(tool).is_some();
        self.left_out.changes_rights() || (!is_there && self.left_out.unseen.iter().any(names))
    }

    /// Ends the agents, the backend, and the MCP servers in order, within a few seconds. Dropped servers are
    /// killed.
    pub async fn close(&self) {
        tokio::join!(self.servers.close(), self.agents.close());
        if let Some(backend) = &self.backend {
            backend.close().await;
        }
    }

    /// Returns the NATS server of program.toml and the command line.
    pub fn nats(&self) -> NatsServer {
        self.machines.server(&self.manifest, &self.dirs.home, &self.redactor)
    }

    /// Returns the program with its calls journalled as those of the worker `name`.
    #[must_use]
    pub fn of_worker(self, name: &str) -> Self {
        let journal = if self.journal.is_kept() {
            let program = self.journal.program().on_worker(name);
            journal::open(&self.dirs.journal(), program, self.manifest.journal)
        } else {
            Journal::default()
        };
        Self { journal, ..self }
    }

    /// Returns a worker that runs calls of this program's toolbox.
    pub async fn worker(&self, settings: WorkerSettings) -> Result<Arc<Worker>, LinkError> {
        let server = self.nats().settings().await?;
        Worker::connect(settings, &server, self.reading()).await
    }

    /// Returns the reading with which a worker runs calls of this program.
    pub fn reading(&self) -> Reading {
        let (identity, toolbox) = (self.identity.clone(), self.toolbox.clone());
        Reading { identity, toolbox, session: self.session("work", Events::none()) }
    }

    /// Returns the sender of `worker`'s journal to NATS; `None` without a journal.
    pub fn shipper(&self, worker: &Worker) -> Option<Shipper> {
        let place = worker.place();
        let progress = self.dirs.state.join("nats").join(format!(
            "{}-{}-{}.json",
            worker.link().prefix(),
            place.identity.program,
            place.worker
        ));
        let names = (place.identity.program.as_str(), place.worker.as_str());
        let shipper = || Shipper::new(worker.link(), names, self.dirs.journal(), progress);
        self.journal.is_kept().then(shipper)
    }

    /// Returns a session whose calls are journalled, and whose answers and events are redacted. The journal records
    /// `verb` as the origin of its calls.
    pub fn session(&self, verb: &str, events: Events) -> Session {
        let (redactor, journal, trace) = (self.redactor.clone(), self.journal.clone(), self.trace.clone());
        let via = Some(format!("haft {verb}").into());
        Session { events, redactor, journal, trace, via, ..Session::default() }
    }

    /// Returns the rights that a present user may give to refused calls of this program.
    pub fn widening(&self) -> Widening {
        widening(&self.dirs)
    }

    /// Returns the sessions of this machine; `None` if nothing may be stored.
    pub fn sessions(&self) -> Option<Sessions> {
        self.journal.is_kept().then(|| self.dirs.kept_sessions())
    }

    /// Returns the beginning of a session of this program, in the current folder.
    pub fn begun(&self) -> Begun {
        Begun::new(self.manifest.name(), self.manifest.file(), Some(&self.dirs.here))
    }

    /// Reads the secrets of this program.
    pub fn secrets(&self) -> Secrets<'_> {
        Secrets::new(&self.manifest, &self.dirs.home, &self.redactor)
    }

    /// Returns the tools that `patterns` match or, without patterns, `[agent] tools`, with a list for models within
    /// `[agent] tool_budget`.
    pub fn agent_tools(&self, patterns: &[ToolPattern]) -> Toolbox {
        let named = self.named(patterns).map(guidance::and_read_skill);
        let tools = chosen_tools::of_agent(&self.with_read_skill(patterns), named.as_deref());
        let tools = self.manifest.agent.tool_budget.map_or(tools.clone(), |budget| tools.within(budget));
        tools.at_most(self.max_tools())
    }

    /// Returns `patterns` or, without patterns, `[agent] tools`; `None` for all tools.
    fn named<'a>(&'a self, patterns: &'a [ToolPattern]) -> Option<&'a [ToolPattern]> {
        let of_agent = self.manifest.agent.tools.as_ref().map(|tools| tools.value.as_slice());
        if patterns.is_empty() { of_agent } else { Some(patterns) }
    }

    /// Returns the maximum number of tools in a request to the provider of program.toml.
    fn max_tools(&self) -> usize {
        let vendor = self.manifest.provider.as_ref().filter(|provider| provider.base_url.is_none());
        let kind = vendor.and_then(|provider| haft_agent::provider::kind(provider.name.value.as_str()).ok());
        kind.and_then(|kind| kind.max_tools).unwrap_or(usize::MAX)
    }

    /// Returns all problems as one report; `None` without a problem.
    pub fn report(&self) -> Option<Report> {
        (!self.problems.is_empty()).then(|| self.manifest.report(self.problems.clone()))
    }
}

/// Returns the contribution of every source of tools, in the order in which models see the tools. No other function
/// knows all sources.
async fn sources(rights: &Rights<'_>, known: Contribution) -> anyhow::Result<(Merged, Agents)> {
    let (only, mut merged, mut agents) =
        (rights.options.only.as_deref(), Merged::default(), Agents::default());
    let (pending, others) = plugins::pending(rights);
    let (now, later) = plugins::split(pending, only);
    let own = [
        known,
        others,
        backend::contribution(rights).await?,
        plugins::contribution(rights, &now).await,
        children::commands(rights),
        guidance::skill_offers(rights),
    ];
    // Checked before servers start: two tools with one name are an error of the program.
    merged.add(rights, own.into_iter().collect())?;
    merged.add(rights, servers::contribution(rights).await?)?;
    merged.add(rights, worker_servers::contribution(rights).await)?;
    for declared in rights.loaded.family.agents(rights.manifest) {
        merged.add(rights, agents.contribution(rights, declared, &merged))?;
    }
    match only {
        // Loads all plugins, so that the error can suggest the nearest name.
        Some(only) if merged.toolbox.find(only).is_none() => {
            merged.add(rights, plugins::contribution(rights, &later).await)?;
        }
        // A worker has some of the tools, and no agent.
        None if !rights.placement.is_worker() => {
            let missing = patterns::missing(rights.manifest, &merged.toolbox, &merged.rest.unseen);
            merged.rest.problems.extend(missing);
        }
        _ => {}
    }
    Ok((merged, agents))
}

/// Returns the journal of this machine, with the program's name.
fn journal(manifest: &Manifest, dirs: &Dirs) -> Journal {
    let program = journal::Program::new(manifest.name(), manifest.file());
    journal::open(&dirs.journal(), program, manifest.journal)
}
