//! Builds a project: its language makes a component, haft finishes it and puts it in its place. What
//! stood there stays until the new one is whole; a build that fails changes nothing.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::bindings::{self, Generator};
use super::component::{self, Kind};
use super::pack;
use super::project::Project;
use super::toolchain::{BuildLog, Need, Runner, Tool};
use super::wit::Wit;
use haft_core::event::Event;
use haft_core::report::{Problem, Report};
use haft_sandbox::confine::Confiner;
use haft_sandbox::lookup::{find_on_path, is_executable};

/// Where projects are built.
#[derive(Clone, Debug)]
pub struct Workshop {
    /// What watches over tools, [`Confiner::open`]: they are the author's own, and not confined.
    pub confiner: Confiner,
    /// Where they speak.
    pub talk: BuildLog,
}

/// What came of a build.
#[derive(Debug)]
pub struct Built {
    /// The component.
    pub component: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// What made it, such as `zig 0.17.1`.
    pub tools: Vec<String>,
    /// How long that took.
    pub time: Duration,
}

/// One build under way: what a language works with.
#[derive(Debug)]
pub struct Build<'a> {
    /// The project.
    pub project: &'a Project,
    runner: Runner,
    tools: Mutex<Vec<String>>,
}

impl Workshop {
    /// Builds `project`.
    pub async fn build(&self, project: &Project) -> anyhow::Result<Built> {
        let started = Instant::now();
        let runner = Runner::new(self.confiner.clone(), &project.folder, self.talk.clone())
            .with_context(|| format!("cannot work in `{}`", project.folder.display()))?;
        // Before any tool complains of it in its own words.
        let wit = project.wit()?;
        let build = Build { project, runner, tools: Mutex::default() };
        let made = match project.command() {
            Some(words) => build.command(words).await?,
            None => project.language()?.build(&build).await?,
        };
        let finished = build.finish(made, wit.as_ref())?;
        pack::write(&project.component, &finished)?;
        let tools = build.tools.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (component, bytes) = (project.component.clone(), finished.len() as u64);
        Ok(Built { component, bytes, tools, time: started.elapsed() })
    }
}

impl Build<'_> {
    /// Tells the person what is about to be done.
    pub fn say(&self, message: impl Into<String>) {
        self.runner.talk().events.emit(|| Event::Info { call: String::new(), message: message.into() });
    }

    /// Notes a tool that had a part in it, for the line at the end.
    pub fn used(&self, tool: impl Into<String>) {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).push(tool.into());
    }

    /// A program on PATH.
    pub fn find(&self, need: &Need) -> Result<PathBuf, Report> {
        need.find()
    }

    /// Runs a tool in the project's folder; all that it writes is told.
    pub async fn run(&self, tool: &Tool) -> anyhow::Result<()> {
        self.runner.run(tool).await
    }

    /// The same where standard output is for haft; only standard error is told.
    pub async fn read(&self, tool: &Tool) -> anyhow::Result<String> {
        self.runner.read(tool).await
    }

    /// What a tool writes to standard output, if it ends well. Nothing is told.
    pub async fn ask(&self, tool: &Tool) -> anyhow::Result<Option<String>> {
        self.runner.ask(tool).await
    }

    /// `path` below the project's folder.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.project.folder.join(path)
    }

    /// The project's folder for what is made on the way, `build`; it is made.
    pub fn scratch(&self) -> anyhow::Result<PathBuf> {
        let folder = self.path("build");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create folder `{}`", folder.display()))?;
        Ok(folder)
    }

    /// Where the WIT is. A language that cannot do without it asks.
    pub fn wit_path(&self) -> Result<PathBuf, Report> {
        self.project.wit_path().ok_or_else(|| {
            let problem = Problem::new(format!("no WIT in `{}`", self.project.folder.display()));
            problem.hint("describe the tools in `wit/world.wit`, or name its folder: `[build] wit`").into()
        })
    }

    /// The bindings of the project's world.
    pub fn bindings(&self, generator: Generator) -> Result<Vec<bindings::File>, Report> {
        bindings::make(generator, &self.wit_path()?, self.project.world())
    }

    async fn command(&self, words: &[String]) -> anyhow::Result<Vec<u8>> {
        let (program, arguments) = words.split_first().context("`[build] command` is empty")?;
        let own = self.path(program);
        let found = if program.contains('/') {
            Some(own).filter(|own| is_executable(own))
        } else {
            find_on_path(program)
        };
        let found = found.ok_or_else(|| {
            Report::from(Problem::new(format!("cannot find `{program}`, which `[build] command` names")))
        })?;
        self.run(&Tool::new(found).args(arguments)).await?;
        self.used(program.as_str());
        read(&self.project.component)
    }

    /// From what a toolchain made to what is shipped.
    fn finish(&self, made: Vec<u8>, wit: Option<&Wit>) -> anyhow::Result<Vec<u8>> {
        let component = match (Kind::of(&made), wit) {
            (Kind::Module, Some(wit)) if !component::names_its_world(&made) => {
                component::from_plain_module(made, wit)?
            }
            (Kind::Module, _) => component::from_module(&made)?,
            _ => made,
        };
        let docs = wit.map(Wit::encode).transpose()?;
        pack::finish(&component, docs.as_deref(), Some(&self.project.program()?))
    }
}

/// What a tool made.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
}
