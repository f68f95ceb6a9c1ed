//! Runs one program on haft's own streams, confined like a child of a tool: `haft exec`, the shell of a local
//! pane, and servers behind `haft wrap`. Leaves no process running when the program or haft ends.

use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::str::FromStr;

use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setrlimit};
use serde::{Deserialize, Serialize};

use crate::HostContext;
use crate::backend::script::quoted;
use crate::confine::{Confiner, HelperEvent, HelperSession, Layers, Refusal, sys};
use crate::process::service::ServiceSpec;
use crate::process::start::{command, started};
use crate::process::{ProcessError, watch};
use haft_core::grant::{Grant, Reach, Root, SandboxMode};
use haft_manifest::ProcessLimits;

/// The rights of a pane, passed on the command line of its process.
#[derive(Debug, Serialize, Deserialize)]
pub struct PaneRights {
    workspace: PathBuf,
    /// `None` for everything.
    write: Option<Vec<PathBuf>>,
    /// `None` for everything.
    read: Option<Vec<PathBuf>>,
    hidden: Vec<PathBuf>,
    fixed: Vec<PathBuf>,
    caches: Option<PathBuf>,
    env: Vec<String>,
    network: bool,
    /// The only destinations in the network; none if it is open or closed.
    hosts: Vec<String>,
    /// The hosts that are closed.
    blocked: Vec<String>,
    unix_sockets: bool,
    /// The services with unix sockets, if not all are open.
    services: Vec<String>,
    /// Whether the sandbox is switched off.
    open: bool,
}

impl PaneRights {
    /// Returns the rights of `grant`, as `confiner` enforces them.
    pub fn from_grant(grant: &Grant, confiner: &Confiner) -> Self {
        let reach = |reach: &Reach| match reach {
            Reach::Anywhere => None,
            Reach::Roots(roots) => Some(paths(roots.iter())),
        };
        Self {
            workspace: grant.workspace().map_or_else(|| "/".into(), |root| root.path().to_owned()),
            write: reach(grant.writable()),
            read: reach(&grant.readable()),
            hidden: paths(grant.hidden()),
            fixed: paths(grant.fixed()),
            caches: grant.caches().map(|caches| caches.path().to_owned()),
            env: grant.env().iter().cloned().collect(),
            network: grant.network(),
            hosts: grant.child_hosts().iter().map(ToString::to_string).collect(),
            blocked: grant.blocked_hosts().iter().map(ToString::to_string).collect(),
            unix_sockets: grant.unix_sockets(),
            services: grant.services().iter().map(ToString::to_string).collect(),
            open: confiner.layers() == Layers::NONE,
        }
    }

    /// Rebuilds the grant. The process that passed it on a command line has all of these rights already.
    pub fn grant(&self) -> io::Result<Grant> {
        let root = |path: &PathBuf| Root::resolve(Path::new("/"), path);
        let roots = |paths: &[PathBuf]| paths.iter().map(root).collect::<io::Result<Vec<_>>>();
        let workspace = root(&self.workspace)?;
        let grant = match &self.write {
            None => Grant::sandbox(SandboxMode::Rwx, workspace, []),
            Some(write) => {
                roots(write)?.into_iter().fold(Grant::none().with_workspace(workspace), Grant::with_write)
            }
        };
        let grant = match &self.read {
            None => grant.with_read_anywhere(),
            Some(read) => roots(read)?.into_iter().fold(grant, Grant::with_read),
        };
        let grant = roots(&self.hidden)?.into_iter().fold(grant, Grant::with_hidden);
        let grant = roots(&self.fixed)?.into_iter().fold(grant, Grant::with_fixed);
        let grant = roots(self.caches.as_slice())?.into_iter().fold(grant, Grant::with_caches);
        let grant = parsed(&self.hosts)?.into_iter().fold(grant, Grant::with_child_host);
        let grant = parsed(&self.blocked)?.into_iter().fold(grant, Grant::with_blocked_host);
        let grant = parsed(&self.services)?.into_iter().fold(grant, Grant::with_service);
        let grant = self.env.iter().fold(grant, Grant::with_env);
        Ok(grant.with_network(self.network).with_unix_sockets(self.unix_sockets))
    }

    /// Returns the confiner that enforces the rights.
    pub fn confiner(&self) -> Confiner {
        if self.open { Confiner::open() } else { Confiner::new() }
    }
}

fn parsed<T: FromStr<Err: Error + Send + Sync + 'static>>(texts: &[String]) -> io::Result<Vec<T>> {
    texts.iter().map(|text| text.parse().map_err(io::Error::other)).collect()
}

fn paths<'r>(roots: impl Iterator<Item = &'r Root>) -> Vec<PathBuf> {
    roots.map(|root| root.path().to_owned()).collect()
}

/// Returns the command line of a local pane's process, for tmux's shell.
pub(crate) fn command_line(host: &HostContext, shell: &Path) -> String {
    let rights = PaneRights::from_grant(&host.grant, &host.confiner);
    // A program's directories are always UTF-8.
    let rights = serde_json::to_string(&rights).unwrap_or_default();
    let words = ["exec", "--terminal", "--rights", &rights, "--", &shell.to_string_lossy()].map(quoted);
    format!("{} {}", quoted(&host.haft.to_string_lossy()), words.join(" "))
}

/// Runs `program` on this process's streams to its end; returns its status and the sandbox's refusals. With
/// `terminal` it stays in the session of its terminal, so that keys such as Ctrl-C reach it.
pub async fn run(
    confiner: &Confiner,
    grant: &Grant,
    program: &Path,
    arguments: &[OsString],
    terminal: bool,
) -> Result<(ExitStatus, Vec<Refusal>), ProcessError> {
    let environment = if terminal { terminal_variables() } else { Vec::new() };
    let confiner = if terminal { confiner.clone().at_terminal() } else { confiner.clone() };
    let (program, arguments) = (program.to_owned(), arguments.to_vec());
    let job = ServiceSpec { program, arguments, environment, limits: ProcessLimits::default() };
    let mut attached = Attached::start(&confiner, grant, &job, own_streams()?).await?;
    loop {
        tokio::select! {
            refusal = attached.refusal() => if refusal?.is_none() {
                break;
            },
            _ = tokio::signal::ctrl_c() => attached.stop(),
        }
    }
    let refused = attached.session.records.refused.lock().clone();
    Ok((attached.finish().await?, refused))
}

/// Returns this process's standard streams: input, output, errors.
///
/// # Errors
/// A stream is closed.
pub fn own_streams() -> Result<[OwnedFd; 3], ProcessError> {
    let stream = |stream: io::Result<_>| stream.map_err(watch("hand on a stream"));
    Ok([
        stream(io::stdin().as_fd().try_clone_to_owned())?,
        stream(io::stdout().as_fd().try_clone_to_owned())?,
        stream(io::stderr().as_fd().try_clone_to_owned())?,
    ])
}

/// Replaces this process's standard output by `/dev/null`, so that its reader sees the end when other processes
/// close it.
///
/// # Errors
/// There is no `/dev/null`.
pub fn close_output() -> Result<(), ProcessError> {
    let closed = File::options().write(true).open("/dev/null");
    let closed = closed.and_then(|nothing| sys::replace_output(&nothing));
    closed.map_err(watch("close standard output"))
}

/// Ends this process by `signal`, without a core file. Returns only if the signal does not end it.
pub fn end_by(signal: i32) {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // Both fail only where they are not needed.
    let _ = setrlimit(Resource::Core, none);
    sys::default_signals();
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = kill_process(getpid(), signal);
    }
}

/// A running program with inherited streams. Dropping it kills the program and all of its processes.
#[derive(Debug)]
pub struct Attached {
    session: HelperSession,
    /// The status of `wait`, once it has ended.
    ended: Option<i32>,
}

impl Attached {
    /// Starts `job` with the rights of `grant` on `streams`: input, output, errors.
    ///
    /// # Errors
    /// The program cannot be confined or started.
    pub async fn start(
        confiner: &Confiner,
        grant: &Grant,
        job: &ServiceSpec,
        streams: [OwnedFd; 3],
    ) -> Result<Self, ProcessError> {
        let command = command(&job.program, &job.arguments, &job.environment, grant)?;
        let session = started(confiner, grant, &command, streams).await?;
        Ok(Self { session, ended: None })
    }

    /// Waits for the next refusal of the sandbox; `None` once the program has ended and its processes were
    /// signalled. The future may be dropped and created again.
    ///
    /// # Errors
    /// The program is not watched over any more.
    pub async fn refusal(&mut self) -> Result<Option<Refusal>, ProcessError> {
        loop {
            match self.session.news().await.map_err(watch("wait for the command"))? {
                HelperEvent::Refused(refusal) => return Ok(Some(refusal)),
                HelperEvent::Ended(end) => {
                    self.ended = Some(end.status);
                    if !end.left || self.session.stop().is_err() {
                        return Ok(None);
                    }
                }
                HelperEvent::Gone(_) => return Ok(None),
            }
        }
    }

    /// Asks all processes to stop. Returns at once.
    pub fn stop(&self) {
        // An error means that no process is left.
        let _ = self.session.stop();
    }

    /// Returns how the program ended; kills its remaining processes.
    ///
    /// # Errors
    /// The program was not started, was ended since a sealed file was replaced, or has not ended.
    pub async fn finish(self) -> Result<ExitStatus, ProcessError> {
        if let Some(why) = self.session.not_started() {
            return Err(ProcessError::Start(why));
        }
        let replaced = self.session.replaced();
        self.session.finish().await;
        if let Some(path) = replaced {
            return Err(ProcessError::Replaced { path });
        }
        let ended = self.ended.map(ExitStatus::from_raw);
        ended.ok_or_else(|| watch("take the command's exit status")(io::ErrorKind::TimedOut.into()))
    }
}

fn terminal_variables() -> Vec<(OsString, OsString)> {
    let names = ["TERM", "COLORTERM"];
    names.into_iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect()
}
