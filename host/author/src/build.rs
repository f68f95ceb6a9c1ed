//! One build of a project: the tools that a language runs for it, and what is made of their output.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::bindings::{self, Generator};
use super::component::{self, Kind};
use super::pack::{self, Added, CONFIG_SCHEMA};
use super::project::Project;
use super::sweep::TOOLCHAINS;
use super::toolchain::{Need, Runner, Tool};
use super::wit::Wit;
use haft_core::event::Event;
use haft_core::lookup::{find_on_path, is_executable};
use haft_core::report::{Problem, Report};
use haft_core::sync::Lock;
use haft_plugin_host::debug::{self, Kept};

/// One build under way: what a language works with.
#[derive(Debug)]
pub struct Build<'a> {
    /// The project.
    pub project: &'a Project,
    /// Whether what debuggers and profilers need is kept.
    pub debug: bool,
    /// Where compilers are kept that several projects name.
    pub(crate) toolchains: PathBuf,
    runner: Runner,
    tools: Lock<Vec<String>>,
    inputs: Lock<Vec<PathBuf>>,
}

impl<'a> Build<'a> {
    /// A build whose tools run in the project's folder.
    pub(super) fn new(project: &'a Project, runner: Runner, debug: bool, cache: &Path) -> Self {
        let toolchains = cache.join(TOOLCHAINS);
        Self { project, debug, toolchains, runner, tools: Lock::default(), inputs: Lock::default() }
    }

    /// The tools that have a part in it so far.
    pub(super) fn tools(&self) -> Vec<String> {
        self.tools.lock().clone()
    }

    /// The files that were noted with [`Self::reads`].
    pub(super) fn inputs(&self) -> Vec<PathBuf> {
        self.inputs.lock().clone()
    }

    /// Tells the person what is about to be done.
    pub(crate) fn announce(&self, message: impl Into<String>) {
        self.runner.log().events.emit(|| Event::Info { call: String::new(), message: message.into() });
    }

    /// Notes a tool that had a part in it, for the line at the end.
    pub(crate) fn used(&self, tool: impl Into<String>) {
        self.tools.lock().push(tool.into());
    }

    /// Notes files that the component is made of besides those of the project's folder, or which the tools write there
    /// themselves.
    pub(crate) fn reads(&self, paths: impl IntoIterator<Item = PathBuf>) {
        self.inputs.lock().extend(paths);
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
    pub(crate) fn scratch(&self) -> anyhow::Result<PathBuf> {
        let folder = self.path("build");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create folder `{}`", folder.display()))?;
        Ok(folder)
    }

    /// The folder of the author's files as compilers are told to name it: the same on every machine.
    pub(crate) fn root(&self) -> String {
        format!("/{}", self.project.plugin)
    }

    /// Where the WIT is. A language that cannot do without it asks.
    pub(crate) fn wit_path(&self) -> Result<PathBuf, Report> {
        self.project.wit_path().ok_or_else(|| {
            let problem = Problem::new(format!("no WIT in `{}`", self.project.folder.display()));
            problem.hint("describe the tools in `wit/world.wit`, or name its folder: `[build] wit`").into()
        })
    }

    /// The bindings of the project's world.
    pub(crate) fn bindings(&self, generator: Generator) -> Result<Vec<bindings::File>, Report> {
        bindings::make(generator, &self.wit_path()?, self.project.world())
    }

    /// The component that the command of program.toml made.
    pub(super) async fn command(&self, words: &[String]) -> anyhow::Result<Vec<u8>> {
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
    pub(super) fn finish(&self, made: Vec<u8>, wit: Option<&Wit>) -> anyhow::Result<Vec<u8>> {
        let component = match (Kind::detect(&made), wit) {
            (Kind::Module, Some(wit)) if !component::names_its_world(&made) => {
                component::from_plain_module(made, wit)?
            }
            (Kind::Module, _) => component::from_module(&made)?,
            _ => made,
        };
        let docs = wit.map(Wit::encode).transpose()?;
        let (component, lines) = self.without_debug(component)?;
        self.add(&component, docs.as_deref(), lines.as_deref())
    }

    /// The component with what program.toml and the schema of its configuration say now, and with `docs` and `lines` in the
    /// place of those that it has.
    pub(super) fn add(
        &self,
        component: &[u8],
        docs: Option<&[u8]>,
        lines: Option<&[u8]>,
    ) -> anyhow::Result<Vec<u8>> {
        let (program, config) = (self.project.program()?, self.config_schema()?);
        pack::finish(component, Added { docs, program: Some(&program), config: config.as_deref(), lines })
    }

    /// The component, and which lines of the author's its code is of. One that a command of the author's made stays as
    /// it is.
    fn without_debug(&self, component: Vec<u8>) -> Result<(Vec<u8>, Option<Vec<u8>>), Report> {
        if self.project.command().is_some() {
            return Ok((component, None));
        }
        let kept = if self.debug { Kept::Everything } else { Kept::Lines };
        let compacted = debug::compact(&component, &self.root(), kept);
        compacted.map_err(|error| Problem::new(format!("not a component: {error}")).into())
    }

    /// The schema of the plugin's configuration, where the project has one.
    fn config_schema(&self) -> anyhow::Result<Option<String>> {
        let path = self.path(CONFIG_SCHEMA);
        path.exists().then(|| pack::read_config_schema(&path)).transpose()
    }
}

/// What a tool made.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
}
