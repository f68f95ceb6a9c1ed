//! One build of a project: runs the language's tools in the project's folder, forwards their output, ends them with
//! all their child processes, and turns their output into a component. The tools run unconfined, as from the author's
//! shell; so nothing is run for a project that is not the author's.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::bindings::{self, Generator};
use super::pack::{self, Added, CONFIG_SCHEMA};
use super::project::Project;
use super::sweep::TOOLCHAINS;
use super::toolchain::{BuildLog, Interrupted, KEPT, Tool};
use super::wit::Wit;
use haft_core::event::{Event, Events};
use haft_core::grant::{Grant, Root};
use haft_core::lookup::{find_on_path, is_executable};
use haft_core::report::{Problem, Report};
use haft_core::sync::Lock;
use haft_core::tool::{self, Own};
use haft_plugin_host::debug::{self, Kept};
use haft_sandbox::confine::Confiner;
use haft_sandbox::process::{self, ExitReason, Finished, Output};

/// A running build: the interface for languages.
#[derive(Debug)]
pub struct Build<'a> {
    /// The project.
    pub project: &'a Project,
    /// Whether the component keeps its debug information.
    pub debug: bool,
    /// The cache of compilers that several projects share.
    pub(crate) toolchains: PathBuf,
    confiner: Confiner,
    grant: Grant,
    log: BuildLog,
    tools: Lock<Vec<String>>,
    inputs: Lock<Vec<PathBuf>>,
}

impl<'a> Build<'a> {
    /// Creates a build whose tools run in the project's folder. `confiner` is [`Confiner::open`], unless this process
    /// cannot be started again.
    pub(super) fn new(
        project: &'a Project,
        (confiner, log): (Confiner, BuildLog),
        debug: bool,
        cache: &Path,
    ) -> std::io::Result<Self> {
        let root = Root::resolve(&std::env::current_dir()?, &project.folder)?;
        let grant = Grant::none().with_workspace(root.clone()).with_write(root).with_read_anywhere();
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let grant = names.fold(grant.with_network(true).with_unix_sockets(true), Grant::with_env);
        let toolchains = cache.join(TOOLCHAINS);
        let (tools, inputs) = (Lock::default(), Lock::default());
        Ok(Self { project, debug, toolchains, confiner, grant, log, tools, inputs })
    }

    pub(super) fn tools(&self) -> Vec<String> {
        self.tools.lock().clone()
    }

    /// Returns the files that [`Self::reads`] recorded.
    pub(super) fn inputs(&self) -> Vec<PathBuf> {
        self.inputs.lock().clone()
    }

    pub(crate) fn announce(&self, message: impl Into<String>) {
        self.log.events.emit(|| Event::Info { call: String::new(), message: message.into() });
    }

    pub(crate) fn used(&self, tool: impl Into<String>) {
        self.tools.lock().push(tool.into());
    }

    /// Records input files of the component outside the project's folder, or written by the tools themselves.
    pub(crate) fn reads(&self, paths: impl IntoIterator<Item = PathBuf>) {
        self.inputs.lock().extend(paths);
    }

    /// Runs a tool in the project's folder and forwards its output.
    pub async fn run(&self, tool: &Tool) -> anyhow::Result<()> {
        tool.check(&mut self.process(tool, Output::Merged, &self.merged_events()).await?)
    }

    /// Runs a tool and returns its standard output; forwards only standard error.
    pub async fn read(&self, tool: &Tool) -> anyhow::Result<String> {
        let mut finished = self.process(tool, Output::Separate, &self.merged_events()).await?;
        tool.check(&mut finished)?;
        Ok(finished.stdout.render(KEPT))
    }

    /// Returns the standard output of a tool, or `None` if it fails. Forwards nothing.
    pub async fn ask(&self, tool: &Tool) -> anyhow::Result<Option<String>> {
        let mut finished = self.process(tool, Output::Separate, &Events::none()).await?;
        let is_well = matches!(finished.end, ExitReason::Exited(status) if status.success());
        Ok(is_well.then(|| finished.stdout.render(KEPT)))
    }

    /// Returns events that forward both streams of a tool as standard error.
    fn merged_events(&self) -> Events {
        let events = self.log.events.clone();
        Events::to(move |event| match event {
            Event::Stdout { call, chunk } if call == MERGED => {
                events.emit(|| Event::Stderr { call: call.clone(), chunk: chunk.clone() });
            }
            Event::Stderr { .. } => events.emit(|| event.clone()),
            _ => {}
        })
    }

    async fn process(&self, tool: &Tool, output: Output, events: &Events) -> anyhow::Result<Finished> {
        let owner = Own::default();
        let context = tool::Context { events, cancel: &self.log.cancel, ..owner.context(&self.grant) };
        let call = if output == Output::Merged { MERGED } else { "" };
        let job = tool.process(output);
        let running = process::run(&self.confiner, &job, call, &context);
        let finished = running.await.map_err(|error| {
            Report::from(Problem::new(format!("cannot run `{}`: {error}", tool.program.display())))
        })?;
        if finished.end == ExitReason::Cancelled { Err(Interrupted.into()) } else { Ok(finished) }
    }

    /// Returns `path` relative to the project's folder.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.project.folder.join(path)
    }

    /// Creates and returns the project's folder for intermediate files, `build`.
    pub(crate) fn scratch(&self) -> anyhow::Result<PathBuf> {
        let folder = self.path("build");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create folder `{}`", folder.display()))?;
        Ok(folder)
    }

    /// Returns the name of the project's folder in compiled code, equal on every machine.
    pub(crate) fn root(&self) -> String {
        format!("/{}", self.project.plugin)
    }

    /// Returns the path of the WIT; fails if there is none.
    pub(crate) fn wit_path(&self) -> Result<PathBuf, Report> {
        self.project.wit_path().ok_or_else(|| {
            let problem = Problem::new(format!("no WIT in `{}`", self.project.folder.display()));
            problem.hint("describe the tools in `wit/world.wit`, or set the folder: `[build] wit`").into()
        })
    }

    pub(crate) fn bindings(&self, generator: Generator) -> Result<Vec<bindings::File>, Report> {
        bindings::make(generator, &self.wit_path()?, self.project.world())
    }

    /// Runs the command of program.toml; returns the component.
    pub(super) async fn command(&self, words: &[String]) -> anyhow::Result<Vec<u8>> {
        let (program, arguments) = words.split_first().context("`[build] command` is empty")?;
        let local = self.path(program);
        let found = if program.contains('/') {
            Some(local).filter(|local| is_executable(local))
        } else {
            find_on_path(program)
        };
        let found = found.ok_or_else(|| {
            Report::from(Problem::new(format!("cannot find `{program}`, the program of `[build] command`")))
        })?;
        self.run(&Tool::new(found).args(arguments)).await?;
        self.used(program.as_str());
        read(&self.project.component)
    }

    /// Turns the output of a toolchain into the final component.
    pub(super) fn finish(&self, made: Vec<u8>, wit: Option<&Wit>) -> anyhow::Result<Vec<u8>> {
        let component = pack::component(made, wit)?;
        let docs = wit.map(Wit::encode).transpose()?;
        let (component, lines) = self.without_debug(component)?;
        self.add(&component, docs.as_deref(), lines.as_deref())
    }

    /// Appends program.toml and the configuration's schema to the component, and `docs` and `lines` if given.
    pub(super) fn add(
        &self,
        component: &[u8],
        docs: Option<&[u8]>,
        lines: Option<&[u8]>,
    ) -> anyhow::Result<Vec<u8>> {
        let (program, config) = (self.project.program()?, self.config_schema()?);
        pack::finish(component, Added { docs, program: Some(&program), config: config.as_deref(), lines })
    }

    /// Removes debug information; returns the component, and the source lines of its code. A component of the
    /// author's own command stays unchanged.
    fn without_debug(&self, component: Vec<u8>) -> Result<(Vec<u8>, Option<Vec<u8>>), Report> {
        if self.project.command().is_some() {
            return Ok((component, None));
        }
        let kept = if self.debug { Kept::Everything } else { Kept::Lines };
        let compacted = debug::compact(&component, &self.root(), kept);
        compacted.map_err(|error| Problem::new(format!("not a component: {error}")).into())
    }

    fn config_schema(&self) -> anyhow::Result<Option<String>> {
        let path = self.path(CONFIG_SCHEMA);
        path.exists().then(|| pack::read_config_schema(&path)).transpose()
    }
}

/// The call id of a tool whose streams are merged.
const MERGED: &str = "build";

/// Reads the output file of a tool.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
}
