//! Runs one program to its end, within bounds, and stops everything that it started. It refuses
//! to give a child anything that the grant and [`crate::process::start::ENVIRONMENT`] do not name.
//!
//! **Start:** in the grant's workspace, confined by [`super::confine`], with a cleared
//! environment and an input that is not the host's.
//! **End:** when the child itself has ended. What it left in the background may still hold the
//! pipes; it gets a moment to finish writing and is then stopped, so that no process outlives
//! the call it was started by.
//! **Timeout, cancellation:** TERM for all, a grace, KILL for all. A dropped future kills at once.

pub mod attached;
pub mod caches;
pub(crate) mod capture;
pub(crate) mod detached;
mod error;
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

use super::confine::{self, Confiner, HelperEvent, HelperSession, Refusal};
use crate::process::capture::{Capture, Listener};
pub use crate::process::error::ProcessError;
pub(crate) use crate::process::error::watch;
use crate::process::start::{command, started};
use haft_core::tool::{Clipper, Context};
use haft_core::trace::TraceParent;

/// Bytes that one argument may have: what Linux takes (`MAX_ARG_STRLEN`), less the final NUL.
pub const MAX_ARGUMENT: usize = (128 << 10) - 1;

/// How long the pipes are read on after the child has ended, before what holds them is stopped,
/// and once more after that.
const DRAIN: Duration = Duration::from_millis(200);
/// How long the helper may take to stop everything: a grace for TERM and repeated KILL.
const STOP: Duration = Duration::from_secs(3);

/// The most time that [`run`] takes beyond [`ProcessSpec::timeout`]: what stopping takes when processes resist.
pub const STOP_BOUND: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    /// An executable, as [`haft_core::lookup::find_on_path`] finds it.
    pub program: PathBuf,
    /// Its arguments, passed on as they are; none longer than [`MAX_ARGUMENT`].
    pub arguments: Vec<OsString>,
    /// Variables that it gets besides [`crate::process::start::ENVIRONMENT`], those of the grant and, of a call that is
    /// traced, `TRACEPARENT` and `TRACESTATE`.
    pub environment: Vec<(OsString, OsString)>,
    /// What it reads from standard input, all of it; nothing when empty.
    pub input: Vec<u8>,
    /// How it may write.
    pub output: Output,
    /// Characters to keep of each stream.
    pub limit: usize,
    /// From start to the first TERM.
    pub timeout: Duration,
}

/// What becomes of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// One pipe for both, which alone keeps the order in which they were written. All of it is
    /// told as [`haft_core::event::Event::Stdout`].
    Merged,
    /// A pipe for each.
    Separate,
}

/// How a [`ProcessSpec`] ended, and what it wrote.
#[derive(Debug)]
pub struct Finished {
    /// Why it ended.
    pub end: ExitReason,
    /// Standard output; both streams where they were merged.
    pub stdout: Clipper,
    /// Standard error, where it was separate.
    pub stderr: Option<Clipper>,
    /// What the sandbox refused it, in order; bounded.
    pub refused: Vec<Refusal>,
    /// Processes that had outlived the child and were stopped.
    pub(crate) left_behind: u32,
    /// The most memory that one process of it had, bytes.
    pub(crate) peak: u64,
}

/// Why a [`ProcessSpec`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The child ended, by itself or by a signal that was not ours.
    Exited(ExitStatus),
    /// [`ProcessSpec::timeout`] passed; everything was stopped.
    TimedOut,
    /// The caller cancelled; everything was stopped.
    Cancelled,
}

/// Runs `job` for the call named `call`, telling its output live. Returns within [`STOP_BOUND`]
/// of the child's end, of the timeout or of the cancellation.
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

/// For the journal: what held the child, how much memory it took, and whether its time was over.
fn note(confiner: &Confiner, finished: Option<&Finished>, context: &Context<'_>) {
    context.notes.decision(|| confiner.describe());
    if let Some(finished) = finished {
        context.notes.memory(finished.peak);
        for refusal in &finished.refused {
            context.notes.decision(|| format!("refused: {refusal}"));
        }
        if finished.end == ExitReason::TimedOut {
            context.notes.timed_out();
        }
    }
}

/// What the call is a part of, as variables, where somebody is told.
fn traced(context: &Context<'_>) -> Vec<(OsString, OsString)> {
    let parent = context.caller.trace().parent();
    let variables = parent.into_iter().flat_map(TraceParent::variables);
    variables.map(|(name, value)| (name.into(), value.into())).collect()
}

/// A child under way. Dropping it ends all that it started.
struct Running {
    watched: Watched,
    capture: Capture,
}

/// What is known of a child's end.
struct Watched {
    session: HelperSession,
    /// How it ended, as `wait` gives it, and its peak of memory.
    ended: Option<(i32, u64)>,
    /// Whether nothing of it is left.
    gone: bool,
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
        Ok(Self { watched: Watched { session, ended: None, gone: false, stopped: 0 }, capture })
    }

    async fn finished(self, end: Option<ExitReason>) -> Result<Finished, ProcessError> {
        let Watched { session, ended, gone, stopped } = self.watched;
        let refused = session.refused();
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
        let refused = refused.lock().clone();
        Ok(Finished { end, stdout, stderr, refused, left_behind: stopped, peak })
    }
}

impl Watched {
    /// Waits for the child's end, which leaves what it started.
    async fn ended(&mut self) -> Result<(), ProcessError> {
        while self.ended.is_none() {
            self.receive().await.map_err(watch("wait for the child"))?;
        }
        Ok(())
    }

    /// Waits until nothing of the child is left.
    async fn gone(&mut self) {
        while !self.gone {
            if self.receive().await.is_err() {
                return;
            }
        }
    }

    /// Ends all that is left.
    async fn stop(&mut self) {
        if self.gone || self.session.stop().is_err() {
            return;
        }
        // What is not gone by then the kernel cannot end.
        let _: Result<(), _> = timeout(STOP, self.gone()).await;
    }

    async fn receive(&mut self) -> io::Result<()> {
        match self.session.news().await? {
            HelperEvent::Ended(ended) => {
                self.ended = Some((ended.status, ended.peak));
                self.gone = !ended.left;
            }
            HelperEvent::Gone(stopped) => (self.gone, self.stopped) = (true, stopped),
        }
        Ok(())
    }
}

/// A file in memory as standard input: unlike a pipe, no task has to fill it.
fn input(bytes: &[u8]) -> io::Result<OwnedFd> {
    if bytes.is_empty() {
        return Ok(File::open("/dev/null")?.into());
    }
    confine::wire::memory_file(bytes)
}
