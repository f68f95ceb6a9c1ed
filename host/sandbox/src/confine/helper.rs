//! The helper process: it confines itself step by step, forks, executes the command in the child and watches it. It
//! refuses to run anything when a single step of its policy fails.
//!
//! Three processes, of one thread each:
//! - the *outer* one, which the host starts; it enters new namespaces and waits;
//! - the *watcher*, the first process of those namespaces ([`super::watch`]);
//! - the *command*, which lays the remaining layers around itself, waits to be told what to
//!   become, and is executed in place.
//!
//! Without namespaces the outer process is the watcher.

use std::fmt::Display;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, set_child_subreaper,
    set_dumpable_behavior, set_parent_process_death_signal, setrlimit, setsid, waitpid,
};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, set_no_new_privs};

use super::policy::Policy;
use super::program::SOURCES;
use super::sys::{self, Fork};
use super::wire::{self, Command, FAILED, JOB, LACKING, READY, SETUP};
use super::{mounts, rules, seccomp, watch};

/// What the helper is told to be by. The only other word of its command line says of which
/// sources the host is.
pub(super) const VERB: &str = "__confine";

/// Processes and threads of one call, all together: a parallel build has a few hundred.
const MAX_PROCESSES: u64 = 512;
/// The kernel ends these first when memory runs out, not haft and not the desktop.
const EXPENDABLE: &str = "1000";
/// How a shell says that something could not be run.
const CANNOT: u8 = 125;

/// Runs the helper if that is what this process was started as; to be asked where there is a
/// single thread.
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
        // The host closes the socket when it no longer needs the helper: no failure.
        let served = control().and_then(|control| match serve(&control) {
            Ok(()) => Ok(()),
            Err(error) => {
                let kind = if error.is::<NoNamespaces>() { LACKING } else { FAILED };
                wire::send(&control, kind, message(&error).as_bytes(), NONE)
            }
        });
        served.map_or(ExitCode::from(CANNOT), |()| ExitCode::SUCCESS)
    })
}

/// What failed is what some systems do not offer, and may be done without.
#[derive(Debug, thiserror::Error)]
#[error("no namespaces of its own")]
struct NoNamespaces;

/// Mounts that are not to be had are missing like the namespaces themselves: some systems give
/// those and refuse what they are for. Anything else that fails may have been made to, by a link
/// that a tool has put somewhere, and is no reason to do without.
fn without_mounts(error: anyhow::Error) -> anyhow::Error {
    let refused = |cause: &(dyn std::error::Error + 'static)| {
        let refusals = [Errno::PERM, Errno::ACCESS, Errno::NOSYS, Errno::INVAL];
        let code = cause.downcast_ref::<io::Error>().and_then(Errno::from_io_error);
        code.or_else(|| cause.downcast_ref().copied()).is_some_and(|code| refusals.contains(&code))
    };
    if error.chain().any(refused) { error.context(NoNamespaces) } else { error }
}

const NONE: &[OwnedFd] = &[];

fn message(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

/// Takes the socket from where the host put it, and closes everything that it did not mean to hand
/// over.
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
    let job = descriptors.pop().context("the host sent no second socket")?;
    hygiene(&policy)?;
    if !policy.layers.namespaces {
        set_child_subreaper(Some(rustix::process::getpid())).context("cannot adopt orphans")?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot close itself to others")?;
        return watched(control, &policy, job, false);
    }
    enter_namespaces(&policy).context(NoNamespaces)?;
    match sys::fork().context("cannot start the watcher")? {
        Fork::Child => {
            set_parent_process_death_signal(Some(Signal::KILL)).context("cannot tie itself to its parent")?;
            mounts::arrange(&policy).map_err(without_mounts)?;
            set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot close itself to others")?;
            watched(control, &policy, job, true)
        }
        Fork::Parent(watcher) => {
            drop(job);
            wait(watcher);
            Ok(())
        }
    }
}

/// Starts the command and watches over it.
fn watched(control: &OwnedFd, policy: &Policy, job: OwnedFd, is_first: bool) -> Result<()> {
    // Before there is a child whose end could be missed.
    let ended = sys::child_signals().context("cannot listen for the end of the command")?;
    match sys::fork().context("cannot start the command")? {
        Fork::Child => {
            let failed = match command(policy, &job) {
                Err(error) => message(&error),
                Ok(never) => match never {},
            };
            // If this fails, no process is left to report it to.
            let _ = wire::send(&job, FAILED, failed.as_bytes(), NONE);
            std::process::exit(CANNOT.into())
        }
        Fork::Parent(command) => {
            drop(job);
            watch::until_gone(control, &ended, command, is_first)
        }
    }
}

fn wait(process: Pid) {
    // Anything but an interruption means that there is nothing to wait for.
    while matches!(waitpid(Some(process), WaitOptions::empty()), Err(Errno::INTR)) {}
}

/// What every child gets, whatever the layers.
fn hygiene(policy: &Policy) -> Result<()> {
    if !policy.terminal {
        setsid().context("cannot begin a session")?;
    }
    // Where this is not allowed the child is no worse off than haft.
    let _ = fs::write("/proc/self/oom_score_adj", EXPENDABLE);
    // One byte: no file is written, and no program that collects them is started either.
    limit(Resource::Core, Some(1), Some(1))?;
    let files = getrlimit(Resource::Nofile);
    limit(Resource::Nofile, policy.open_files.or(files.maximum), files.maximum)
}

fn limit(resource: Resource, current: Option<u64>, maximum: Option<u64>) -> Result<()> {
    setrlimit(resource, Rlimit { current, maximum }).context("cannot set a limit")
}

fn enter_namespaces(policy: &Policy) -> Result<()> {
    let user = (rustix::process::geteuid(), rustix::process::getegid());
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    if !policy.network {
        flags |= UnshareFlags::NEWNET;
    }
    // Root that may write everything keeps its rights over other users' files; what it would
    // need to take the covers away is dropped later.
    let is_root = user.0.is_root() && policy.write.is_none();
    if !is_root || sys::unshare(flags).is_err() {
        sys::unshare(flags | UnshareFlags::NEWUSER).context("cannot enter namespaces")?;
        map("/proc/self/setgroups", "deny")?;
        map("/proc/self/uid_map", format_args!("{0} {0} 1", user.0.as_raw()))?;
        map("/proc/self/gid_map", format_args!("{0} {0} 1", user.1.as_raw()))?;
        // Counted by user, and in a namespace of its own that is the call. Not set before: there
        // everything counts that the user runs, and a desktop alone is more.
        limit(Resource::Nproc, Some(MAX_PROCESSES), Some(MAX_PROCESSES))?;
    }
    if !policy.network {
        sys::loopback_up().context("cannot turn the loopback interface on")?;
    }
    Ok(())
}

fn map(path: &str, line: impl Display) -> Result<()> {
    fs::write(path, line.to_string()).with_context(|| format!("cannot write `{path}`"))
}

/// Lays the remaining layers around this process, waits for the job and becomes it.
fn command(policy: &Policy, job: &OwnedFd) -> Result<std::convert::Infallible> {
    // A group of its own: what a command sends to its group does not reach the watcher.
    if !policy.terminal {
        setsid().context("cannot begin a session")?;
    }
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot tie itself to its parent")?;
    confine(policy)?;
    wire::send(job, READY, &[], NONE).context("cannot tell that it is ready")?;
    let Some(message) = wire::receive(job).context("cannot hear the host")? else {
        // The host has no use for this helper.
        std::process::exit(0);
    };
    ensure!(message.kind == JOB, "the host speaks another language");
    let (text, streams) = message.text().context("cannot read the command")?;
    let command = Command::decode(&text).context("cannot understand the command")?;
    enter(&command)?;
    #[cfg(target_os = "macos")]
    let command = super::seatbelt::wrapped(policy, command);
    sys::default_signals();
    let error = process(&command, streams)?.exec();
    let hint = if policy.read.is_some() && error.kind() == io::ErrorKind::PermissionDenied {
        " (`[sandbox] read` has to name where it, its loader and its libraries lie)"
    } else {
        ""
    };
    Err(error).with_context(|| format!("cannot start `{}`{hint}", command.program.display()))
}

fn confine(policy: &Policy) -> Result<()> {
    let layers = policy.layers;
    if layers.capabilities {
        set_no_new_privs(true).context("cannot renounce new privileges")?;
    }
    if let Some(version) = layers.landlock.filter(|_| policy.write.is_some() || policy.read.is_some()) {
        rules::apply(policy, version)?;
    }
    if layers.capabilities {
        drop_capabilities(policy)?;
    }
    if layers.seccomp && policy.write.is_some() {
        seccomp::apply(policy).context("cannot apply the filter of system calls")?;
    }
    Ok(())
}

/// What root keeps where it may write everything: its rights over files of other users, and what
/// installing software takes. None of them takes a cover away or reaches into another process.
const KEPT_BY_ROOT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SYS_CHROOT);

fn drop_capabilities(policy: &Policy) -> Result<()> {
    let kept = if policy.write.is_none() && rustix::process::geteuid().is_root() {
        KEPT_BY_ROOT
    } else {
        CapabilitySet::empty()
    };
    for number in 0..u64::BITS {
        let is_kept = kept.bits() & (1 << number) != 0;
        // The kernel knows fewer than 64.
        if !is_kept && sys::drop_from_bounding_set(number).is_err() {
            break;
        }
    }
    let had = rustix::thread::capabilities(None).context("cannot read capabilities")?;
    let kept = had.permitted & kept;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).context("cannot drop capabilities")
}

/// Changes to the directory that is meant. By its path: a descriptor of the host's would still
/// belong to the host's mounts, through which everything can be written.
fn enter(command: &Command) -> Result<()> {
    let name = command.directory.display();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(CWD, &command.directory, flags, Mode::empty());
    let directory = directory.with_context(|| format!("cannot open `{name}`"))?;
    let found = rustix::fs::fstat(&directory)?;
    ensure!(
        (found.st_dev, found.st_ino) == command.identity,
        "`{name}` has been replaced by another directory"
    );
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
