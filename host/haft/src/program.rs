//! Assembly: a program.toml, the places of this machine and what the command line adds become a
//! toolbox. The one file that knows every source of tools; it decides nothing about a single call.

mod approvals;
mod backend;
mod builtins;
mod children;
mod dirs;
mod grants;
mod install_context;
mod live;
mod packages;
mod patterns;
mod plugins;
mod provider;
mod secrets;
mod servers;
mod unsupported;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::backend::Target;
pub use self::builtins::{builtin, builtin_names};
pub(crate) use self::children::command_spec;
pub use self::dirs::Dirs;
pub use self::grants::{Allow, AllowError, mode_name};
pub use self::install_context::InstallContext;
pub use self::live::{Live, News, Running, ToolChoice};
pub use self::packages::missing;
use self::packages::{Installed, Pinned};
use self::patterns::Unseen;
pub use self::patterns::{Idle, Why};
use self::plugins::Wanted;
pub(crate) use self::plugins::described;
pub use self::provider::ModelChoice;
pub use self::servers::Servers;
use haft_agent::{Begun, Sessions};
use haft_core::event::Events;
use haft_core::grant::{Grant, Root};
use haft_core::journal::{self, Journal};
use haft_core::manifest::{Manifest, ToolPattern};
use haft_core::report::{Problem, Report};
use haft_core::secret::{Redactor, Secrets};
use haft_core::tool::{Session, Toolbox};
use haft_mcp::client::Elicitor;
use haft_package::{Lock, Project, Skill, Store, lock_path};
use haft_plugin_host::{Engine, EngineOptions};
use haft_sandbox::Backend;
use haft_sandbox::confine::{Confiner, Layers};

/// What somebody who runs a program can say about it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The program.toml; `None` for the one in the current directory, if there is one.
    pub program: Option<PathBuf>,
    /// Rights for this run, on top of what the program.toml grants.
    pub allow: Vec<Allow>,
    /// Whether many calls will be made: worth preparing for.
    pub many_calls: bool,
    /// What holds children to their grant; `None` for every layer that the kernel offers.
    pub confiner: Option<Confiner>,
    /// What is left out of everything; it learns the secrets of the program.
    pub redactor: Redactor,
    /// Whether calls are not to be noted in the journal.
    pub no_journal: bool,
    /// The only tool that will be called, as the caller writes it. Plugins that cannot have it are
    /// not looked at, unless nobody has it; nothing is said of them then.
    pub only: Option<String>,
    /// Where to tell what takes a while before there is a session.
    pub events: Events,
    /// Which MCP servers to ask what they have.
    pub ask: Ask,
    /// Who answers what MCP servers want to know; `None` where nobody is there.
    pub person: Option<Arc<dyn Elicitor>>,
    /// Where commands run, in the place of `[backend]`.
    pub target: Target,
    /// Whether to pass over what would have to be looked at first: plugins that were never seen.
    pub known_only: bool,
    /// MCP servers that may run already: those that are declared as before go on.
    pub servers: Servers,
}

/// Which MCP servers are started for no other reason than to learn which tools they have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ask {
    /// Those of which it is not known, or not known any more.
    #[default]
    WhereUnknown,
    /// All.
    Always,
    /// None.
    Never,
}

/// A program, ready to run.
#[derive(Debug)]
pub struct Program {
    /// What program.toml says.
    pub manifest: Manifest,
    /// Every tool of the program that could be had.
    pub toolbox: Toolbox,
    /// What installed packages tell the model.
    pub skills: Vec<Skill>,
    /// What the built-in tools, `bash` and commands may do.
    pub grant: Grant,
    /// What holds `bash` and commands to it.
    pub confiner: Confiner,
    /// What is wrong without keeping the rest from working; already checked by `haft check`.
    pub problems: Vec<Problem>,
    /// What plugins export and nobody can call, one line each, with the reason.
    pub uncallable: Vec<String>,
    /// What is left out of answers, events and the journal: the secrets that program.toml names.
    pub redactor: Redactor,
    /// Where commands run, if that was chosen.
    pub backend: Option<Arc<dyn Backend>>,
    /// Whether commands run in no pane of tmux, and nobody said whether they are to.
    pub is_without_pane: bool,
    /// Where calls are noted down.
    pub journal: Journal,
    /// The MCP servers whose tools are in the toolbox.
    pub servers: Servers,
    /// Whether nothing was passed over.
    pub is_complete: bool,
    /// The files that it was made of, there or not.
    pub files: Vec<PathBuf>,
    /// Tools that there may be besides.
    unseen: Unseen,
    places: Dirs,
}

/// The name of a program file.
pub const FILE_NAME: &str = "program.toml";

impl Program {
    /// Assembles a program in three steps: what is written (`Loaded`), what it may do (`Rights`), what it
    /// runs (`Assembly`). Fails where program.toml is wrong; a plugin that cannot be loaded is one of
    /// [`Self::problems`].
    pub async fn load(options: &Options) -> anyhow::Result<Self> {
        let loaded = Loaded::read(options).await?;
        let mut problems = Vec::new();
        let installed = packages::installed(&loaded.manifest, &loaded.pinned(), &mut problems);
        let rights = Rights::resolve(options, &loaded, &installed, problems)?;
        let (grant, confiner) = (rights.grant.clone(), rights.confiner.clone());
        let mut assembly = Assembly::new(&loaded.manifest, &installed, options.known_only);
        let Started { backend, servers } = assembly.fill(options, &loaded, &installed, rights).await?;
        let skills = packages::skills(&installed);
        let Assembly { toolbox, problems, uncallable, is_complete, files, unseen, .. } = assembly;
        drop(installed);
        let Loaded { places, manifest, redactor, .. } = loaded;
        let journal = if options.no_journal { Journal::none() } else { journal(&manifest, &places) };
        let is_without_pane = backend::is_without_pane(&manifest, &options.target);
        Ok(Self {
            manifest,
            toolbox,
            skills,
            grant,
            confiner,
            problems,
            uncallable,
            redactor,
            backend,
            is_without_pane,
            journal,
            servers,
            is_complete,
            files,
            unseen,
            places,
        })
    }

    /// Ends what the program keeps running: its MCP servers, in order and within a few seconds.
    /// What is only dropped is killed.
    pub async fn close(&self) {
        self.servers.close().await;
        if let Some(backend) = &self.backend {
            backend.close().await;
        }
    }

    /// A session whose calls are journalled and whose answers and events hold no secret.
    pub fn session(&self, events: Events) -> Session {
        let (redactor, journal) = (self.redactor.clone(), self.journal.clone());
        Session { events, redactor, journal, ..Session::default() }
    }

    /// The sessions of this machine; `None` where nothing is to be noted down.
    pub fn sessions(&self) -> Option<Sessions> {
        self.journal.is_kept().then(|| Sessions::new(self.places.sessions()))
    }

    /// How a session of this program begins, in the folder that haft was started in.
    pub fn begun(&self) -> Begun {
        let name = self.manifest.program.as_ref().map(|program| program.name.as_str());
        let path = Some(self.manifest.path.as_path()).filter(|path| !path.as_os_str().is_empty());
        Begun::new(name, path, std::env::current_dir().ok().as_deref())
    }

    /// Reads the secrets of this program.
    pub fn secrets(&self) -> Secrets<'_> {
        Secrets::new(&self.manifest, &self.places.home, &self.redactor)
    }

    /// The tools that `patterns` name or, where there are none, those that `[agent] tools` names, told of within
    /// `[agent] tool_budget`.
    pub fn agent_tools(&self, patterns: &[ToolPattern]) -> Toolbox {
        let agent = &self.manifest.agent;
        let tools = match &agent.tools {
            _ if !patterns.is_empty() => self.toolbox.select(patterns, None),
            Some(allowed) => self.toolbox.select(&allowed.value, None),
            None => self.toolbox.clone(),
        };
        agent.tool_budget.map_or(tools.clone(), |budget| tools.within(budget))
    }

    /// Everything wrong, as one report; `None` when nothing is.
    pub fn report(&self) -> Option<Report> {
        (!self.problems.is_empty()).then(|| self.manifest.report(self.problems.clone()))
    }
}

/// What is written about a program: its files, as they are on this machine. Grants nothing.
struct Loaded {
    places: Dirs,
    manifest: Manifest,
    lock: Lock,
    store: Store,
    redactor: Redactor,
}

impl Loaded {
    /// Reads program.toml and its lock file, and has the redactor learn the secrets that they name.
    async fn read(options: &Options) -> anyhow::Result<Self> {
        let places = Dirs::of_this_machine()?;
        let (manifest, lock) = read(options.program.as_deref()).await?;
        let (store, redactor) = (Store::new(&places.store), options.redactor.clone());
        let loaded = Self { places, manifest, lock, store, redactor };
        loaded.secrets().learn();
        Ok(loaded)
    }

    fn pinned(&self) -> Pinned<'_> {
        Pinned { lock: &self.lock, store: &self.store }
    }

    fn secrets(&self) -> Secrets<'_> {
        Secrets::new(&self.manifest, &self.places.home, &self.redactor)
    }
}

/// What the parts of a program may do, and what holds them to it. Runs nothing of the program.
struct Rights {
    /// Of `bash`, commands and MCP servers.
    grant: Grant,
    /// Of each entry of `[[plugins]]`, in order.
    plugins: Vec<Grant>,
    /// Of each component of each installed package, in order.
    packages: Vec<Vec<Grant>>,
    confiner: Confiner,
    engine: Engine,
    /// What was found wrong until here.
    problems: Vec<Problem>,
}

impl Rights {
    /// The rights that program.toml and the command line give. Fails where either grants what cannot be
    /// granted; adds to `problems` what only concerns a part.
    fn resolve(
        options: &Options,
        loaded: &Loaded,
        installed: &[Installed<'_>],
        mut problems: Vec<Problem>,
    ) -> anyhow::Result<Self> {
        let Loaded { manifest, places, .. } = loaded;
        let names: Vec<_> = installed.iter().flat_map(Installed::plugins).collect();
        grants::unknown_plugins(manifest, &options.allow, &names)?;
        let grant = grants::sandbox(manifest, places, &options.allow, &mut problems)?;
        let plugins = grants::plugins(manifest, places, &options.allow, &grant, &mut problems)?;
        let confiner = options.confiner.clone().unwrap_or_default();
        let of_program = (&grant, options.allow.as_slice());
        let packages = packages::granted(manifest, places, of_program, installed, &mut problems)?;
        let all = std::iter::once(&grant).chain(&plugins).chain(packages.iter().flatten());
        let engine = engine(options, places, &confiner, all)?;
        if manifest.has_children() || installed.iter().any(Installed::has_commands) {
            problems.extend(children(&confiner, &grant, options.many_calls));
        }
        Ok(Self { grant, plugins, packages, confiner, engine, problems })
    }
}

/// What runs besides the tools, and has to be closed.
struct Started {
    backend: Option<Arc<dyn Backend>>,
    servers: Servers,
}

/// Makes ready for children where there will be many; or why there cannot be any.
fn children(confiner: &Confiner, grant: &Grant, many_calls: bool) -> Option<Problem> {
    let refusal = confiner.refusal(grant);
    if refusal.is_none() && many_calls {
        confiner.keep_ready(grant);
    }
    refusal.map(|error| Problem::new(format!("`bash` and commands are {error}")))
}

/// The engine of plugins with the grants `grants`.
fn engine<'g>(
    options: &Options,
    places: &Dirs,
    confiner: &Confiner,
    grants: impl Iterator<Item = &'g Grant>,
) -> anyhow::Result<Engine> {
    let cache = Root::resolve(Path::new("/"), &places.cache)?;
    // Where nothing is covered for children, a directory that they may write is not haft's alone.
    let is_open = confiner.layers() == Layers::NONE;
    let exposed = grants.filter(|grant| is_open || !grant.hides(&cache));
    Engine::new(&EngineOptions {
        cache: Some(places.cache.join("components")),
        writable: exposed.map(|grant| grant.writable().clone()).collect(),
        pooling: options.many_calls,
        ahead: if options.many_calls { EngineOptions::DEFAULT_AHEAD } else { 0 },
        events: options.events.clone(),
    })
}

/// The program.toml that was named, or the one that is here, or none, and what is pinned beside it: both as they are
/// between changes by other hafts.
async fn read(named: Option<&Path>) -> anyhow::Result<(Manifest, Lock)> {
    let here = Path::new(FILE_NAME);
    let Some(path) = named.or_else(|| here.exists().then_some(here)) else {
        return Ok((Manifest::default(), Lock::default()));
    };
    let _unchanged = Project::unchanged(path).await;
    let manifest = Manifest::load(path)?;
    let lock = Lock::load(&lock_path(path)).map_err(|error| {
        let problem = Problem::new(error.to_string());
        Report::from(error.hint().into_iter().fold(problem, Problem::hint))
    })?;
    Ok((manifest, lock.unwrap_or_default()))
}

/// The journal of this machine, with the program's name.
fn journal(manifest: &Manifest, places: &Dirs) -> Journal {
    let name = manifest.program.as_ref().map(|program| program.name.as_str());
    let path = Some(manifest.path.as_path()).filter(|path| !path.as_os_str().is_empty());
    Journal::new(&places.journal(), journal::Program::new(name, path))
}

/// A toolbox being filled, in the order in which models see the tools.
struct Assembly<'a> {
    manifest: &'a Manifest,
    toolbox: Toolbox,
    problems: Vec<Problem>,
    uncallable: Vec<String>,
    known_only: bool,
    is_complete: bool,
    /// Whether commands run on a target, whose files are not this machine's.
    is_target: bool,
    /// The files that the program is made of.
    files: Vec<PathBuf>,
    /// Tools that there may be, and that are not in the toolbox.
    unseen: Unseen,
}

impl<'a> Assembly<'a> {
    fn new(manifest: &'a Manifest, installed: &[Installed<'_>], known_only: bool) -> Self {
        let named = Some(manifest.path.as_path()).filter(|path| !path.as_os_str().is_empty());
        let program = named.unwrap_or(Path::new(FILE_NAME));
        let files = vec![program.to_owned(), lock_path(program)];
        Self {
            manifest,
            toolbox: Toolbox::default(),
            problems: Vec::new(),
            uncallable: Vec::new(),
            known_only,
            is_complete: true,
            is_target: false,
            files,
            unseen: packages::unused(manifest, installed),
        }
    }

    /// Adds every source of tools, in the order in which models see them.
    async fn fill(
        &mut self,
        options: &Options,
        loaded: &'a Loaded,
        installed: &'a [Installed<'a>],
        rights: Rights,
    ) -> anyhow::Result<Started> {
        let Rights { grant, plugins, packages, confiner, engine, problems } = rights;
        let (places, secrets, only) = (&loaded.places, loaded.secrets(), options.only.as_deref());
        self.problems.extend(problems);
        let backend = self.backend(options, places, &confiner, &grant).await?;
        let mut wanted = self.wanted(places, &grant, plugins, &loaded.pinned());
        wanted.extend(self.of_packages(installed, places, packages)?);
        let (now, later) = plugins::apart(wanted, only);
        self.plugins(&engine, now, secrets).await?;
        self.commands(&confiner, &grant)?;
        self.package_commands(installed, &confiner, &grant)?;
        let mut declared = servers::declared(&loaded.manifest, &grant);
        declared.extend(servers::of_packages(installed, &grant)?);
        let servers = self.servers(declared, options, places, &confiner).await?;
        self.rest(only, later, &engine, secrets).await?;
        Ok(Started { backend, servers })
    }

    /// What is left to do where all but `later` is in the toolbox.
    async fn rest(
        &mut self,
        only: Option<&str>,
        later: Vec<Wanted<'a>>,
        engine: &Engine,
        secrets: Secrets<'_>,
    ) -> anyhow::Result<()> {
        match only {
            // Found; or nobody has it, and whoever asked for it is told the nearest name.
            Some(only) if self.toolbox.find(only).is_none() => self.plugins(engine, later, secrets).await?,
            Some(_) => {}
            None => {
                self.required_tools();
                self.package_patterns();
            }
        }
        Ok(())
    }
}
