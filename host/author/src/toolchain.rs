//! An author's own tools: how they are found, and one run of a tool.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use haft_core::event::Events;
use haft_core::lookup::find_on_path;
use haft_core::report::{Problem, Report};
use haft_manifest::ProcessLimits;
use haft_sandbox::process::{ExitReason, Finished, Output, ProcessSpec};

/// Time limit of one run: longer than any first build on a slow machine.
const BOUND: Duration = Duration::from_hours(1);

/// Maximum number of characters of a tool's output that are stored for haft; all output is forwarded.
pub(super) const KEPT: usize = 4 << 20;

/// Maximum number of characters of a command line in a message.
const MAX_SHOWN: usize = 60;

/// The error after Ctrl-C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Receives the output of tools, and cancels them.
#[derive(Clone, Debug, Default)]
pub struct BuildLog {
    /// Progress is sent as [`Info`](haft_core::event::Event::Info), the output of tools as
    /// [`Stderr`](haft_core::event::Event::Stderr).
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
    pub(super) program: PathBuf,
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

    /// Returns the process that is run: with its output in `output`.
    pub(super) fn process(&self, output: Output) -> ProcessSpec {
        ProcessSpec {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            environment: self.environment.clone(),
            input: Vec::new(),
            output,
            limit: KEPT,
            timeout: BOUND,
            limits: ProcessLimits::default(),
        }
    }

    pub(super) fn check(&self, finished: &mut Finished) -> anyhow::Result<()> {
        let why = match finished.end {
            ExitReason::Exited(status) if status.success() => return Ok(()),
            ExitReason::Exited(status) => status.to_string(),
            ExitReason::TimedOut => format!("stopped after {} minutes", BOUND.as_secs() / 60),
            ExitReason::Cancelled => return Err(Interrupted.into()),
        };
        let output = finished.stderr.as_mut().unwrap_or(&mut finished.stdout).render(KEPT);
        let problem = Problem::new(format!("`{}` failed: {why}", self.command_line()));
        Err(Report::from((self.way_out)(&output).into_iter().fold(problem, Problem::hint)).into())
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
