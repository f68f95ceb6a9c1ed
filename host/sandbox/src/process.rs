//! Runs one program to its end, within limits, and stops all processes that it started. A child gets only what
//! the grant and [`crate::process::start::ENVIRONMENT`] name.
//!
//! **Start:** in the grant's workspace, confined by [`super::confine`], with a cleared environment and an input
//! that is not the host's.
//! **End:** when the child itself has ended. Its background processes may still hold the pipes; they get 200 ms
//! to finish writing and are then stopped, so that no process outlives the call that started it.
//! **Timeout, cancellation:** TERM for all processes, a grace period, KILL for all. Dropping the future kills
//! at once.

pub mod attached;
pub mod caches;
pub(crate) mod capture;
pub(crate) mod detached;
pub mod private;
pub mod service;
pub mod start;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use self::capture::{Capture, Listener};
use self::start::{command, started};
use crate::confine::{self, ConfineError, Confiner, Connection, HelperEvent, HelperSession, Refusal};
use haft_core::tool::{Clipper, Context};
use haft_core::trace::TraceParent;
use haft_manifest::ProcessLimits;

/// Limit on the bytes of one argument: Linux's `MAX_ARG_STRLEN`, minus the final NUL.
pub const MAX_ARGUMENT: usize = (128 << 10) - 1;

/// Time for reading the pipes after the child has ended, before their holders are stopped, and once more after
/// that.
const DRAIN: Duration = Duration::from_millis(200);
/// Time limit for the helper to stop all processes: a grace period for TERM and repeated KILL.
const STOP: Duration = Duration::from_secs(3);

/// Limit on the time that [`run`] takes beyond [`ProcessSpec::timeout`], while processes resist being stopped.
pub const STOP_BOUND: Duration = Duration::from_secs(5);

/// A program to run.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    /// The executable, as [`haft_core::lookup::find_on_path`] finds it.
    pub program: PathBuf,
    /// The arguments, passed unchanged; none is longer than [`MAX_ARGUMENT`].
    pub arguments: Vec<OsString>,
    /// Environment variables in addition to [`crate::process::start::ENVIRONMENT`], those of the grant and, for
    /// a traced call, `TRACEPARENT` and `TRACESTATE`.
    pub environment: Vec<(OsString, OsString)>,
    /// The content of standard input; empty for none.
    pub input: Vec<u8>,
    /// The handling of the output streams.
    pub output: Output,
    /// Limit on the characters kept of each stream.
    pub limit: usize,
    /// The time from the start to the first TERM.
    pub timeout: Duration,
    /// The limits of its processes.
    pub limits: ProcessLimits,
}

/// The handling of the output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// One pipe for both streams, which preserves their order. All output is reported as
    /// [`haft_core::event::Event::Stdout`].
    Merged,
    /// One pipe for each stream.
    Separate,
}

/// The end and the output of a [`ProcessSpec`].
#[derive(Debug)]
pub struct Finished {
    /// The reason for the end.
    pub end: ExitReason,
    /// Standard output, or both streams if they were merged.
    pub stdout: Clipper,
    /// Standard error, if it was separate.
    pub stderr: Option<Clipper>,
    /// The sandbox's refusals, in order and limited.
    pub refused: Vec<Refusal>,
    /// The connections of a child with single hosts, limited.
    pub(crate) connections: Vec<Connection>,
    /// The number of processes that outlived the child and were stopped.
    pub(crate) left_behind: u32,
    /// The peak memory of one of its processes, in bytes.
    pub(crate) peak: u64,
}

/// Reasons for the end of a [`ProcessSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The child exited, or was ended by a signal from elsewhere.
    Exited(ExitStatus),
    /// [`ProcessSpec::timeout`] passed; all processes were stopped.
    TimedOut,
    /// The caller cancelled; all processes were stopped.
    Cancelled,
}

/// Runs `job` for the call `call` and reports its output live. Returns within [`STOP_BOUND`] of the child's
/// end, the timeout or the cancellation.
pub async fn run(
    confiner: &Confiner,
    job: &ProcessSpec,
    call: &str,
    context: &Context<'_>,
) -> Result<Finished, ProcessError> {
    let mut running = Running::start(confiner, job, context).await?;
    let listener = Listener { call, events: context.events };
    let end = tokio::select! {
        biased;
        () = context.cancel.cancelled() => Some(ExitReason::Cancelled),
        () = sleep(job.timeout) => Some(ExitReason::TimedOut),
        ended = running.watched.ended() => ended.map(|()| None)?,
        never = running.capture.read_on(listener) => match never {},
    };
    if end.is_none() {
        let quiet = async { tokio::join!(running.capture.read_to_end(listener), running.watched.gone()) };
        let _: Result<_, _> = timeout(DRAIN, quiet).await;
    }
    tokio::select! {
        () = running.watched.stop() => {}
        never = running.capture.read_on(listener) => match never {},
    }
    let _: Result<(), _> = timeout(DRAIN, running.capture.read_to_end(listener)).await;
    let finished = running.finished(end).await;
    note(confiner, finished.as_ref().ok(), context);
    confiner.refill(context.grant);
    finished
}

/// Records for the journal: the confinement, the peak memory, the refusals and a timeout.
fn note(confiner: &Confiner, finished: Option<&Finished>, context: &Context<'_>) {
    context.notes.decision(|| confiner.describe());
    if let Some(finished) = finished {
        context.notes.memory(finished.peak);
        for connection in &finished.connections {
            context.notes.decision(|| connection.noted());
        }
        for refusal in &finished.refused {
            context.notes.decision(|| format!("refused: {refusal}"));
        }
        if finished.end == ExitReason::TimedOut {
            context.notes.timed_out();
        }
    }
}

/// Returns the trace context of the call as environment variables, if it is traced.
fn traced(context: &Context<'_>) -> Vec<(OsString, OsString)> {
    let parent = context.caller.trace().parent();
    let variables = parent.into_iter().flat_map(TraceParent::variables);
    variables.map(|(name, value)| (name.into(), value.into())).collect()
}

/// A running child. Dropping it ends all of its processes.
struct Running {
    watched: Watched,
    capture: Capture,
}

/// The state of a child's end.
pub(crate) struct Watched {
    pub(crate) session: HelperSession,
    /// The status of `wait` and the peak memory in bytes.
    ended: Option<(i32, u64)>,
    /// Whether no process is left.
    pub(crate) gone: bool,
    stopped: u32,
}

impl Running {
    async fn start(
        confiner: &Confiner,
        job: &ProcessSpec,
        context: &Context<'_>,
    ) -> Result<Self, ProcessError> {
        let environment = [&*job.environment, &*traced(context)].concat();
        let command = command(&job.program, &job.arguments, &environment, context.grant)?;
        let command = confine::Command { limits: job.limits, ..command };
        let pipe = || io::pipe().map_err(watch("open a pipe"));
        let (stdout, stdout_writer) = pipe()?;
        let (stderr, stderr_writer) = match job.output {
            Output::Merged => (None, stdout_writer.try_clone().map_err(watch("share a pipe"))?),
            Output::Separate => pipe().map(|(reader, writer)| (Some(reader), writer))?,
        };
        let capture = Capture::new(stdout.into(), stderr.map(OwnedFd::from), job.limit);
        let capture = capture.map_err(watch("read from a pipe"))?;
        let input = input(&job.input).map_err(watch("prepare the child's input"))?;
        let streams = [input, stdout_writer.into(), stderr_writer.into()];
        let session = started(confiner, context.grant, &command, streams).await?;
        Ok(Self { watched: Watched::new(session), capture })
    }

    async fn finished(self, end: Option<ExitReason>) -> Result<Finished, ProcessError> {
        let Watched { session, ended, gone, stopped } = self.watched;
        let records = session.records.clone();
        if let Some(why) = session.not_started() {
            return Err(ProcessError::Start(why));
        }
        let replaced = session.replaced();
        if !gone {
            session.finish().await;
        }
        if let Some(path) = replaced {
            return Err(ProcessError::Replaced { path });
        }
        let lost = || watch("take the child's exit status")(io::ErrorKind::TimedOut.into());
        let end = match (end, ended) {
            (Some(end), _) => end,
            (None, Some((status, _))) => ExitReason::Exited(ExitStatus::from_raw(status)),
            (None, None) => return Err(lost()),
        };
        let (stdout, stderr) = self.capture.into_parts();
        let peak = ended.map_or(0, |(_, peak)| peak);
        let connections = records.connections.finished().await;
        let refused = records.refused.lock().clone();
        Ok(Finished { end, stdout, stderr, refused, connections, left_behind: stopped, peak })
    }
}

impl Watched {
    pub(crate) fn new(session: HelperSession) -> Self {
        Self { session, ended: None, gone: false, stopped: 0 }
    }

    /// Waits for the child's end; its background processes may remain.
    pub(crate) async fn ended(&mut self) -> Result<(), ProcessError> {
        while self.ended.is_none() {
            self.receive().await.map_err(watch("wait for the child"))?;
        }
        Ok(())
    }

    async fn gone(&mut self) {
        while !self.gone {
            if self.receive().await.is_err() {
                return;
            }
        }
    }

    pub(crate) async fn stop(&mut self) {
        if self.gone || self.session.stop().is_err() {
            return;
        }
        // Processes that still exist after the limit cannot be killed by the kernel.
        let _: Result<(), _> = timeout(STOP, self.gone()).await;
    }

    async fn receive(&mut self) -> io::Result<()> {
        match self.session.news().await? {
            HelperEvent::Ended(ended) => {
                self.ended = Some((ended.status, ended.peak));
                self.gone = !ended.left;
            }
            HelperEvent::Gone(stopped) => (self.gone, self.stopped) = (true, stopped),
            HelperEvent::Refused(_) => {}
        }
        Ok(())
    }
}

/// Returns a memory file as standard input: unlike a pipe, it needs no writing task.
fn input(bytes: &[u8]) -> io::Result<OwnedFd> {
    if bytes.is_empty() {
        return Ok(File::open("/dev/null")?.into());
    }
    confine::wire::memory_file(bytes)
}

/// Reasons why a program could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The grant has no workspace, so there is no directory to run in.
    #[error("no directory to run in: the grant has no workspace")]
    NoWorkspace,
    /// The workspace cannot be opened.
    #[error("cannot open the workspace `{}`: {source}", path.display())]
    Workspace {
        /// The workspace.
        path: PathBuf,
        /// The error of opening it.
        source: io::Error,
    },
    /// The child cannot be confined as required.
    #[error(transparent)]
    Confine(#[from] ConfineError),
    /// The program cannot be started.
    #[error("{0}")]
    Start(String),
    /// A file that is closed to the child was replaced: the child could have changed or read the new one.
    #[error("ended: `{}`, which is blocked for this process, was replaced by another file while the process \
        ran", path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// A system call for the supervision of the child failed.
    #[error("cannot {action}: {source}")]
    Watch {
        /// The action.
        action: &'static str,
        /// The error of the action.
        source: io::Error,
    },
}

pub(crate) fn watch(action: &'static str) -> impl Fn(io::Error) -> ProcessError {
    move |source| ProcessError::Watch { action, source }
}
