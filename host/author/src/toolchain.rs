//! Runs an author's own tools: finds them, runs them in the project's folder, forwards their output, and ends
//! them with all their child processes. The tools run unconfined, as from the author's shell; so nothing is run
//! for a project that is not the author's.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use haft_core::event::{Event, Events};
use haft_core::grant::{Grant, Root};
use haft_core::lookup::find_on_path;
use haft_core::report::{Problem, Report};
use haft_core::tool::{Context, Own};
use haft_manifest::ProcessLimits;
use haft_sandbox::confine::Confiner;
use haft_sandbox::process::{self, ExitReason, Finished, Output, ProcessSpec};

/// Time limit of one run: longer than any first build on a slow machine.
const BOUND: Duration = Duration::from_hours(1);

/// Maximum number of characters of a tool's output that are stored for haft; all output is forwarded.
const KEPT: usize = 4 << 20;

/// Maximum number of characters of a command line in a message.
const MAX_SHOWN: usize = 60;

/// The error after Ctrl-C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Receives the output of tools, and cancels them.
#[derive(Clone, Debug, Default)]
pub struct BuildLog {
    /// Progress is sent as [`Event::Info`], the output of tools as [`Event::Stderr`].
    pub events: Events,
    /// Cancels every running tool.
    pub cancel: CancellationToken,
}

/// A program that a language needs.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// The name on `PATH`.
    pub program: &'static str,
    /// The purpose: `builds Rust plugins`.
    pub(crate) purpose: &'static str,
    /// Ways to install the program, one per line.
    pub(crate) ways: &'static [&'static str],
}

impl Need {
    /// Finds the program on `PATH`.
    pub fn find(&self) -> Result<PathBuf, Report> {
        find_on_path(self.program).ok_or_else(|| self.missing("looked for it on PATH").into())
    }

    /// Returns the problem of a missing program; `looked` names the searched places.
    pub fn missing(&self, looked: &str) -> Problem {
        let Self { program, purpose, ways } = self;
        let problem = Problem::new(format!("cannot find `{program}`, which {purpose}: {looked}"));
        ways.iter().fold(problem, |problem, way| problem.hint(*way))
    }
}

/// One run of a program.
#[derive(Clone, Debug)]
pub struct Tool {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    way_out: WayOut,
}

/// Returns a hint for a failure, from the tool's output.
type WayOut = fn(&str) -> Option<String>;

impl Tool {
    /// Creates a run of `program` without arguments, in the author's environment.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), arguments: Vec::new(), environment: Vec::new(), way_out: |_| None }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Sets the function that returns a hint for a failure.
    #[must_use]
    pub(crate) fn way_out(self, way_out: WayOut) -> Self {
        Self { way_out, ..self }
    }

    /// Returns the command line for messages: the program's name and its arguments, truncated.
    fn command_line(&self) -> String {
        let name = self.program.file_name().unwrap_or(self.program.as_os_str());
        let words = std::iter::once(name).chain(self.arguments.iter().map(OsString::as_os_str));
        let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let line = shell_words::join(words);
        match line.char_indices().nth(MAX_SHOWN) {
            Some((end, _)) => format!("{} …", line.get(..end).unwrap_or_default().trim_end()),
            None => line,
        }
    }
}

/// Runs tools in one folder.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    confiner: Confiner,
    grant: Grant,
    log: BuildLog,
}

impl Runner {
    /// Creates a runner. `confiner` is [`Confiner::open`], unless this process cannot be started again.
    pub(super) fn new(confiner: Confiner, folder: &Path, log: BuildLog) -> std::io::Result<Self> {
        let root = Root::resolve(&std::env::current_dir()?, folder)?;
        let grant = Grant::none().with_workspace(root.clone()).with_write(root).with_read_anywhere();
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let grant = names.fold(grant.with_network(true).with_unix_sockets(true), Grant::with_env);
        Ok(Self { confiner, grant, log })
    }

    pub(super) fn log(&self) -> &BuildLog {
        &self.log
    }

    /// Runs a tool and forwards its output.
    pub(super) async fn run(&self, tool: &Tool) -> anyhow::Result<()> {
        let mut finished = self.finish(tool, Output::Merged, &self.merged_events()).await?;
        succeeded(tool, &mut finished)
    }

    /// Runs a tool and returns its standard output; forwards its standard error.
    pub(super) async fn read(&self, tool: &Tool) -> anyhow::Result<String> {
        let mut finished = self.finish(tool, Output::Separate, &self.merged_events()).await?;
        succeeded(tool, &mut finished)?;
        Ok(finished.stdout.render(KEPT))
    }

    /// Returns the standard output of a tool, if it succeeds; forwards nothing.
    pub(super) async fn ask(&self, tool: &Tool) -> anyhow::Result<Option<String>> {
        let mut finished = self.finish(tool, Output::Separate, &Events::none()).await?;
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

    async fn finish(&self, tool: &Tool, output: Output, events: &Events) -> anyhow::Result<Finished> {
        let job = ProcessSpec {
            program: tool.program.clone(),
            arguments: tool.arguments.clone(),
            environment: tool.environment.clone(),
            input: Vec::new(),
            output,
            limit: KEPT,
            timeout: BOUND,
            limits: ProcessLimits::default(),
        };
        let owner = Own::default();
        let context = Context { events, cancel: &self.log.cancel, ..owner.context(&self.grant) };
        let call = if output == Output::Merged { MERGED } else { "" };
        let finished = process::run(&self.confiner, &job, call, &context).await.map_err(|error| {
            Report::from(Problem::new(format!("cannot run `{}`: {error}", tool.program.display())))
        })?;
        if finished.end == ExitReason::Cancelled { Err(Interrupted.into()) } else { Ok(finished) }
    }
}

/// The call id of a tool whose streams are merged.
const MERGED: &str = "build";

fn succeeded(tool: &Tool, finished: &mut Finished) -> anyhow::Result<()> {
    let why = match finished.end {
        ExitReason::Exited(status) if status.success() => return Ok(()),
        ExitReason::Exited(status) => status.to_string(),
        ExitReason::TimedOut => format!("stopped after {} minutes", BOUND.as_secs() / 60),
        ExitReason::Cancelled => return Err(Interrupted.into()),
    };
    let output = finished.stderr.as_mut().unwrap_or(&mut finished.stdout).render(KEPT);
    let problem = Problem::new(format!("`{}` failed: {why}", tool.command_line()));
    Err(Report::from((tool.way_out)(&output).into_iter().fold(problem, Problem::hint)).into())
}
