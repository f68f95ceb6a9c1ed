//! The helper process: confines itself step by step, forks, executes the command in the child and watches it.
//! Runs nothing if a single step of its policy fails. The steps are in `platform`.
//!
//! The processes, each with one thread:
//! - the *watcher*, which is started by the host or by a process in between;
//! - the *command*, which applies the remaining layers to itself, waits for its job, and executes it.

#[cfg_attr(target_os = "linux", path = "helper/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "helper/platform/macos.rs")]
mod platform;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit, setsid};

use super::policy::Policy;
use super::program::SOURCES;
use super::sys::{self, Fork};
use super::wire::{self, Command, FAILED, JOB, LACKING, READY, SETUP};
use haft_manifest::ProcessLimits;

/// The argument that identifies a helper. The only other argument is the digest of the host's sources.
pub(super) const VERB: &str = "__confine";

/// The exit status that shells use for a command that could not be run.
const CANNOT: u8 = 125;

/// Time from TERM to KILL: enough to remove a lock file, too short to be noticed.
pub(super) const TERM_GRACE: Duration = Duration::from_millis(500);
/// Time limit for repeated KILLs; afterwards only the kernel can end a process.
pub(super) const KILL_BOUND: Duration = Duration::from_secs(2);
/// Time limit for the host to close the connection at the end.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// Runs the helper, if this process was started as one; must be called while there is a single thread.
pub(super) fn entry() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != VERB {
        return None;
    }
    let sources = words.next().is_some_and(|word| word == *SOURCES.to_string());
    if !sources || words.next().is_some() {
        return Some(ExitCode::from(CANNOT));
    }
    Some({
        // The host closes the socket when it no longer needs the helper, which is not a failure.
        let served = control().and_then(|control| match serve(&control) {
            Ok(()) => Ok(()),
            Err(error) => {
                let kind = if platform::is_lacking(&error) { LACKING } else { FAILED };
                wire::send(&control, kind, message(&error).as_bytes(), NONE)
            }
        });
        served.map_or(ExitCode::from(CANNOT), |()| ExitCode::SUCCESS)
    })
}

pub(super) const NONE: &[OwnedFd] = &[];

fn message(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

/// Takes the socket from standard input, and closes all other inherited descriptors.
fn control() -> io::Result<OwnedFd> {
    sys::close_from(3)?;
    let control = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    sys::replace_input(&fs::File::open("/dev/null")?)?;
    Ok(control)
}

fn serve(control: &OwnedFd) -> Result<()> {
    let Some(message) = wire::receive(control).context("cannot hear the host")? else { return Ok(()) };
    ensure!(message.kind == SETUP, "the host speaks another language");
    let (policy, mut descriptors) = message.text().context("cannot read the policy")?;
    let policy: Policy = serde_json::from_slice(&policy).context("cannot understand the policy")?;
    let outside = if policy.hosts.is_empty() { None } else { descriptors.pop() };
    let job = descriptors.pop().context("the host sent no second socket")?;
    hygiene(&policy)?;
    platform::serve(control, &policy, job, outside)
}

/// Applies the settings of every child, independent of the layers.
fn hygiene(policy: &Policy) -> Result<()> {
    if !policy.terminal {
        setsid().context("cannot begin a session")?;
    }
    platform::offer_to_oom_killer();
    // One byte: no core file is written, and no core collector is started.
    limit(Resource::Core, Some(1), Some(1))?;
    let files = getrlimit(Resource::Nofile);
    limit(Resource::Nofile, policy.open_files.or(files.maximum), files.maximum)
}

pub(super) fn limit(resource: Resource, current: Option<u64>, maximum: Option<u64>) -> Result<()> {
    setrlimit(resource, Rlimit { current, maximum }).context("cannot set a limit")
}

/// Forks; the child becomes the command. It sends its seccomp listener through `observed`, if it has one.
pub(super) fn fork_command(policy: &Policy, job: &OwnedFd, observed: &OwnedFd) -> Result<Pid> {
    match sys::fork().context("cannot start the command")? {
        Fork::Child => {
            let failed = match command(policy, job, observed) {
                Err(error) => message(&error),
                Ok(never) => match never {},
            };
            // If this fails, no process is left to report it to.
            let _ = wire::send(job, FAILED, failed.as_bytes(), NONE);
            std::process::exit(CANNOT.into())
        }
        Fork::Parent(command) => Ok(command),
    }
}

/// Applies the remaining layers to this process, waits for the job and executes it.
fn command(policy: &Policy, job: &OwnedFd, observed: &OwnedFd) -> Result<std::convert::Infallible> {
    // A new session: signals of the command to its process group do not reach the watcher.
    if !policy.terminal {
        setsid().context("cannot begin a session")?;
    }
    platform::confine(policy, observed)?;
    wire::send(job, READY, &[], NONE).context("cannot tell that it is ready")?;
    let Some(message) = wire::receive(job).context("cannot hear the host")? else {
        // The host does not need this helper.
        std::process::exit(0);
    };
    ensure!(message.kind == JOB, "the host speaks another language");
    let (text, streams) = message.text().context("cannot read the command")?;
    let command = Command::decode(&text).context("cannot understand the command")?;
    enter(&command)?;
    hold(&command.limits, policy)?;
    let command = platform::wrapped(policy, command);
    sys::default_signals();
    let error = process(&command, streams)?.exec();
    let hint = if policy.read.is_some() && error.kind() == io::ErrorKind::PermissionDenied {
        " (the readable directories must include the program, its loader and its libraries)"
    } else {
        ""
    };
    Err(error).with_context(|| format!("cannot start `{}`{hint}", command.program.display()))
}

/// Holds this process, and each that it starts, to `limits`.
fn hold(limits: &ProcessLimits, policy: &Policy) -> Result<()> {
    if let Some(bytes) = limits.memory {
        // What is reserved and not writable does not count: some runtimes reserve more than any machine has.
        limit(Resource::Data, Some(bytes), Some(bytes))?;
    }
    // In a user namespace of its own; otherwise all processes of the user would count.
    if let Some(count) = limits.processes.map(u64::from).filter(|_| policy.layers.namespaces) {
        let all = Some(count.saturating_add(platform::OWN_PROCESSES));
        limit(Resource::Nproc, all, all)?;
    }
    Ok(())
}

/// Changes to the command's directory by its path: a descriptor of the host would belong to the host's mounts,
/// through which everything can be written.
fn enter(command: &Command) -> Result<()> {
    let name = command.directory.display();
    let flags = sys::HANDLE | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(CWD, &command.directory, flags, Mode::empty());
    let directory = directory.with_context(|| format!("cannot open `{name}`"))?;
    let found = rustix::fs::fstat(&directory)?;
    ensure!(sys::identity(&found) == command.identity, "`{name}` has been replaced by another directory");
    rustix::process::fchdir(&directory).with_context(|| format!("cannot change to `{name}`"))
}

#[expect(clippy::disallowed_methods, reason = "becomes the command that the host checked and confined")]
fn process(command: &Command, descriptors: Vec<OwnedFd>) -> Result<std::process::Command> {
    let [input, output, errors] = <[OwnedFd; 3]>::try_from(descriptors)
        .map_err(|_| anyhow::anyhow!("the host sent no streams"))?
        .map(Stdio::from);
    let mut process = std::process::Command::new(&command.program);
    process.args(&command.arguments).env_clear().envs(command.environment.iter().cloned());
    process.stdin(input).stdout(output).stderr(errors);
    Ok(process)
}
