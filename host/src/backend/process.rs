//! Runs one program to its end, within bounds, and stops everything that it started. The only
//! place that starts children, each with the grant that it is confined by; it refuses to give
//! a child anything that the grant and [`ENVIRONMENT`] do not name.
//!
//! **Start:** in the grant's workspace, in a session of its own, with a cleared environment, an
//! input that is not the host's, and no descriptor that the host opened but 0, 1 and 2.
//! **End:** when the child itself has ended. What it left in the background may still hold the
//! pipes; it gets a moment to finish writing and is then stopped, so that no process outlives
//! the call it was started by.
//! **Timeout, cancellation:** TERM for all, a grace, KILL for all. A dropped future kills at once.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::capture::{Capture, Listener};
use super::lookup::{find_on_path, search_path};
use super::tree::{MARK, Tree};
use crate::grant::Grant;
use crate::tool::{Clipper, Context};

/// What a child sees of the host's environment without being granted it: who and where the user
/// is, and how they want text and time. `LC_*` too; nothing here ever holds a secret.
pub const ENVIRONMENT: &[&str] = &["HOME", "LANG", "LANGUAGE", "LOGNAME", "TMPDIR", "TZ", "USER"];

/// Bytes that one argument may have: what Linux takes (`MAX_ARG_STRLEN`), less the final NUL.
pub const MAX_ARGUMENT: usize = (128 << 10) - 1;

/// How long the pipes are read on after the child has ended, before what holds them is stopped,
/// and once more after that.
const DRAIN: Duration = Duration::from_millis(200);
/// How long a stopped child is waited for; one that the kernel cannot end is left to it.
const REAP: Duration = Duration::from_secs(1);

/// The most time that [`run`] takes beyond [`Job::timeout`]: what stopping takes when processes resist.
pub const STOP_BOUND: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// An executable, as [`find_on_path`] finds it.
    pub program: PathBuf,
    /// Its arguments, passed on as they are; none longer than [`MAX_ARGUMENT`].
    pub arguments: Vec<OsString>,
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
    /// told as [`crate::event::Event::Stdout`].
    Merged,
    /// A pipe for each.
    Separate,
}

/// How a [`Job`] ended, and what it wrote.
#[derive(Debug)]
pub struct Finished {
    /// Why it ended.
    pub end: End,
    /// Standard output; both streams where they were merged.
    pub stdout: Clipper,
    /// Standard error, where it was separate.
    pub stderr: Option<Clipper>,
    /// Processes that had outlived the child and were stopped.
    pub left_behind: usize,
}

/// Why a [`Job`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The child ended, by itself or by a signal that was not ours.
    Exited(ExitStatus),
    /// [`Job::timeout`] passed; everything was stopped.
    TimedOut,
    /// The caller cancelled; everything was stopped.
    Cancelled,
}

/// Why a [`Job`] could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The grant has no workspace that may be read, so there is nowhere to run.
    #[error("no directory to run in: the grant names no workspace that may be read")]
    NoWorkspace,
    /// The workspace cannot be opened.
    #[error("cannot open the workspace `{}`: {source}", path.display())]
    Workspace {
        /// The workspace.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The program cannot be started.
    #[error("cannot start `{}`: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The system refused what watching a child takes.
    #[error("cannot {action}: {source}")]
    Watch {
        /// What was being done.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// Runs `job` for the call named `call`, telling its output live. Returns within [`STOP_BOUND`]
/// of the child's end, of the timeout or of the cancellation.
pub async fn run(job: &Job, call: &str, context: &Context<'_>) -> Result<Finished, ProcessError> {
    let mut running = Running::start(job, context.grant)?;
    let listener = Listener { call, events: context.events };
    let end = tokio::select! {
        biased;
        () = context.cancel.cancelled() => Some(End::Cancelled),
        () = sleep(job.timeout) => Some(End::TimedOut),
        ended = running.exit.readable() => ended.map(|_| None).map_err(watch("wait for the child"))?,
        never = running.capture.read_on(listener) => match never {},
    };
    if end.is_none() {
        let _: Result<(), _> = timeout(DRAIN, running.capture.read_to_end(listener)).await;
    }
    let left_behind = tokio::select! {
        count = running.tree.stop() => count,
        never = running.capture.read_on(listener) => match never {},
    };
    let _: Result<(), _> = timeout(DRAIN, running.capture.read_to_end(listener)).await;
    let end = running.reap(end).await?;
    let (stdout, stderr) = running.capture.into_parts();
    Ok(Finished { end, stdout, stderr, left_behind })
}

/// A child under way. Its fields are dropped in this order: the tree is killed while the child
/// still holds its number.
struct Running {
    tree: Tree,
    capture: Capture,
    /// Readable once the child has ended, which leaves it to be reaped after its tree is gone.
    exit: AsyncFd<OwnedFd>,
    child: Child,
}

impl Running {
    fn start(job: &Job, grant: &Grant) -> Result<Self, ProcessError> {
        let pipe = || io::pipe().map_err(watch("open a pipe"));
        let (stdout, stdout_writer) = pipe()?;
        let (stderr, stderr_writer) = match job.output {
            Output::Merged => (None, stdout_writer.try_clone().map_err(watch("share a pipe"))?),
            Output::Separate => pipe().map(|(reader, writer)| (Some(reader), writer))?,
        };
        let mark = new_mark();
        let capture = Capture::new(stdout.into(), stderr.map(OwnedFd::from), job.limit);
        let capture = capture.map_err(watch("read from a pipe"))?;
        let child = spawn(job, grant, &mark, [stdout_writer.into(), stderr_writer.into()])?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let root = id.ok_or_else(|| watch("find the child")(io::ErrorKind::NotFound.into()))?;
        let tree = Tree::new(root, mark);
        let exit = watched(root).map_err(watch("watch the child"))?;
        Ok(Self { tree, capture, exit, child })
    }

    /// Takes the child's exit status, which is the end where there was no other.
    async fn reap(&mut self, end: Option<End>) -> Result<End, ProcessError> {
        let status = timeout(REAP, self.child.wait()).await;
        if let Some(end) = end {
            return Ok(end);
        }
        let status = status.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        status.map(End::Exited).map_err(watch("take the child's exit status"))
    }
}

/// A descriptor that becomes readable when the process ends, without reaping it.
#[expect(
    deprecated,
    reason = "the successor is `unsafe` for descriptors that may close; an `OwnedFd` does not"
)]
fn watched(process: Pid) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(pidfd_open(process, PidfdFlags::empty())?, Interest::READABLE)
}

fn watch(action: &'static str) -> impl Fn(io::Error) -> ProcessError {
    move |source| ProcessError::Watch { action, source }
}

fn spawn(job: &Job, grant: &Grant, mark: &str, output: [Stdio; 2]) -> Result<Child, ProcessError> {
    let root = grant.workspace().ok_or(ProcessError::NoWorkspace)?;
    let failed = |source| ProcessError::Workspace { path: root.path().to_owned(), source };
    let workspace = root.open().map_err(failed)?;
    let input = input(&job.input).map_err(watch("prepare the child's input"))?;
    let [stdout, stderr] = output;
    let mut command = confined(&job.program, grant);
    command
        .args(&job.arguments)
        .env("PWD", root.path())
        .env(MARK, mark)
        // Through the open directory: its path may have come to lead elsewhere.
        .current_dir(format!("/proc/self/fd/{}", workspace.as_raw_fd()))
        .stdin(input)
        .stdout(stdout)
        .stderr(stderr)
        .kill_on_drop(true);
    command.spawn().map_err(|source| ProcessError::Start { program: job.program.clone(), source })
}

/// The beginning of every command line: what holds the child to its grant stands here, before
/// the program. That is its environment and a session of its own, without which it could read
/// from the terminal and write to it.
///
/// `setsid` executes the program in its own place, so the child is the program. Where it is
/// missing a group of its own has to do: the library's way, `pre_exec`, forks all of the host's memory.
#[expect(clippy::disallowed_methods, reason = "the one place that starts children")]
fn confined(program: &Path, grant: &Grant) -> Command {
    let session = find_on_path("setsid");
    let mut command = Command::new(session.as_deref().unwrap_or(program));
    if session.is_some() {
        command.arg("--").arg(program);
    } else {
        command.process_group(0);
    }
    command.env_clear().envs(environment(grant));
    command
}

/// What a child may see of the host's environment.
fn environment(grant: &Grant) -> BTreeMap<OsString, OsString> {
    let is_allowed = |name: &OsStr| {
        let name = name.to_str();
        name.is_some_and(|name| {
            ENVIRONMENT.contains(&name) || name.starts_with("LC_") || grant.env().contains(name)
        })
    };
    let mut environment: BTreeMap<_, _> = std::env::vars_os().filter(|(name, _)| is_allowed(name)).collect();
    environment.insert("PATH".into(), search_path());
    // No colours, no cursor movement, no pager that waits for a key.
    environment.entry("TERM".into()).or_insert("dumb".into());
    environment
}

/// A file in memory for what is to be read: unlike a pipe it needs nobody to fill it.
fn input(bytes: &[u8]) -> io::Result<Stdio> {
    if bytes.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// A value for [`MARK`] that no other call has.
fn new_mark() -> String {
    let own = RandomState::new().hash_one(std::process::id());
    std::env::var(MARK).map_or_else(|_| format!("{own:016x}"), |outer| format!("{outer}:{own:016x}"))
}
