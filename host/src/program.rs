//! Assembly: a program.toml, the places of this machine and what the command line adds become a
//! toolbox. The one file that knows every source of tools; it decides nothing about a single call.

mod approvals;
mod builtins;
mod children;
mod grants;
mod live;
mod places;
mod plugins;
mod secrets;
mod unsupported;
mod watch;

use std::path::{Path, PathBuf};

pub use self::grants::{Allow, AllowError, mode_name};
pub use self::live::{Choice, Live, News};
pub use self::places::Places;
use crate::backend::confine::{Confiner, Layers};
use crate::event::Events;
use crate::grant::{Grant, Root};
use crate::journal::{self, Journal};
use crate::manifest::{Manifest, ToolPattern};
use crate::plugin::{Engine, EngineOptions};
use crate::report::{Problem, Report};
use crate::secret::{Redactor, Secrets};
use crate::tool::{Session, Toolbox};

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
    /// Whether to pass over what would have to be looked at first: plugins that were never seen.
    pub known_only: bool,
}

/// A program, ready to run.
#[derive(Debug)]
pub struct Program {
    /// What program.toml says.
    pub manifest: Manifest,
    /// Every tool of the program that could be had.
    pub toolbox: Toolbox,
    /// What the built-in tools, `bash` and commands may do.
    pub grant: Grant,
    /// What holds `bash` and commands to it.
    pub confiner: Confiner,
    /// What is wrong without keeping the rest from working; already checked by `haft check`.
    pub problems: Vec<Problem>,
    /// What is left out of answers, events and the journal: the secrets that program.toml names.
    pub redactor: Redactor,
    /// Where calls are noted down.
    pub journal: Journal,
    /// Whether nothing was passed over.
    pub is_complete: bool,
    /// The files that it was made of, there or not.
    pub files: Vec<PathBuf>,
    places: Places,
}

/// The name of a program file.
pub const FILE_NAME: &str = "program.toml";

/// The name of the file in which plugins are pinned.
const LOCK_NAME: &str = "program.lock";

impl Program {
    /// Assembles a program. Fails where program.toml is wrong; a plugin that cannot be loaded is
    /// one of [`Self::problems`].
    pub async fn load(options: &Options) -> anyhow::Result<Self> {
        let places = Places::of_this_machine()?;
        let manifest = manifest(options.program.as_deref())?;
        let redactor = options.redactor.clone();
        let secrets = Secrets::new(&manifest, &places.home, &redactor);
        secrets.learn();
        let mut problems = Vec::new();
        let grant = grants::sandbox(&manifest, &places, &options.allow, &mut problems)?;
        let declared = grants::plugins(&manifest, &places, &options.allow, &grant, &mut problems)?;
        let confiner = options.confiner.clone().unwrap_or_default();
        let engine = engine(options, &places, &confiner, std::iter::once(&grant).chain(&declared))?;
        if manifest.has_children() {
            match confiner.refusal(&grant) {
                Some(error) => problems.push(Problem::new(format!("`bash` and commands are {error}"))),
                None if options.many_calls => confiner.keep_ready(&grant),
                None => {}
            }
        }
        let mut assembly = Assembly {
            manifest: &manifest,
            toolbox: Toolbox::default(),
            problems,
            known_only: options.known_only,
            is_complete: true,
            files: files(&manifest),
        };
        assembly.native(&confiner, &grant)?;
        assembly.plugins(&engine, &places, &grant, declared, secrets).await?;
        assembly.commands(&confiner, &grant)?;
        assembly.unsupported();
        let Assembly { toolbox, problems, is_complete, files, .. } = assembly;
        let journal = if options.no_journal { Journal::none() } else { journal(&manifest, &places) };
        Ok(Self {
            manifest,
            toolbox,
            grant,
            confiner,
            problems,
            redactor,
            journal,
            is_complete,
            files,
            places,
        })
    }

    /// A session whose calls are journalled and whose answers and events hold no secret.
    pub fn session(&self, events: Events) -> Session {
        let (redactor, journal) = (self.redactor.clone(), self.journal.clone());
        Session { events, redactor, journal, ..Session::default() }
    }

    /// Reads the secrets of this program.
    pub fn secrets(&self) -> Secrets<'_> {
        Secrets::new(&self.manifest, &self.places.home, &self.redactor)
    }

    /// The tools that `[agent] tools` allows and, where there are any, `patterns` too, told of within
    /// `[agent] tool_budget`.
    pub fn agent_tools(&self, patterns: &[ToolPattern]) -> Toolbox {
        let agent = &self.manifest.agent;
        let mut tools = match &agent.tools {
            Some(allowed) => self.toolbox.select(allowed, None),
            None => self.toolbox.clone(),
        };
        if !patterns.is_empty() {
            tools = tools.select(patterns, None);
        }
        agent.tool_budget.map_or(tools.clone(), |budget| tools.within(budget))
    }

    /// Everything wrong, as one report; `None` when nothing is.
    pub fn report(&self) -> Option<Report> {
        (!self.problems.is_empty()).then(|| self.manifest.report(self.problems.clone()))
    }
}

/// The engine of plugins with the grants `grants`.
fn engine<'g>(
    options: &Options,
    places: &Places,
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
    })
}

/// The program.toml that was named, or the one that is here, or none.
fn manifest(named: Option<&Path>) -> Result<Manifest, Report> {
    match named {
        Some(path) => Manifest::load(path),
        None if Path::new(FILE_NAME).exists() => Manifest::load(Path::new(FILE_NAME)),
        None => Ok(Manifest::default()),
    }
}

/// program.toml, and the file beside it in which its plugins are pinned.
fn files(manifest: &Manifest) -> Vec<PathBuf> {
    let named = Some(manifest.path.as_path()).filter(|path| !path.as_os_str().is_empty());
    let program = named.unwrap_or(Path::new(FILE_NAME));
    vec![program.to_owned(), program.with_file_name(LOCK_NAME)]
}

/// The journal of this machine, with the program's name.
fn journal(manifest: &Manifest, places: &Places) -> Journal {
    let name = manifest.program.as_ref().map(|program| program.name.as_str());
    let path = Some(manifest.path.as_path()).filter(|path| !path.as_os_str().is_empty());
    Journal::new(&places.journal(), journal::Program::new(name, path))
}

/// A toolbox being filled, in the order in which models see the tools.
struct Assembly<'a> {
    manifest: &'a Manifest,
    toolbox: Toolbox,
    problems: Vec<Problem>,
    known_only: bool,
    is_complete: bool,
    files: Vec<PathBuf>,
}
