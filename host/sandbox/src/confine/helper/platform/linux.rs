//! Linux: namespaces, Landlock, seccomp and no capabilities.
//!
//! The process that the host starts enters new namespaces and waits; their first process is the watcher.
//! Without namespaces the started process is the watcher.

mod arguments;
mod capabilities;
mod mounts;
mod nameservers;
mod namespaces;
mod observe;
mod rules;
mod seccomp;
mod sockets;
mod watch;

use std::fs;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, set_child_subreaper, set_dumpable_behavior,
    set_parent_process_death_signal, waitpid,
};
use rustix::thread::set_no_new_privs;

use self::namespaces::NoNamespaces;
use self::observe::Observer;
use self::sockets::Sockets;
use crate::confine::helper::fork_command;
use crate::confine::policy::Policy;
use crate::confine::sys::platform as sys;
use crate::confine::sys::{Fork, fork};
use crate::confine::wire::{self, Command};

/// The score of a process that the OOM killer ends first, before haft and the desktop.
const EXPENDABLE: &str = "1000";

/// The processes of the helper that count beside the command's.
pub(super) const OWN_PROCESSES: u64 = 2;

/// Raises the OOM score. If that is not permitted, the child keeps haft's score.
pub(super) fn offer_to_oom_killer() {
    let _ = fs::write("/proc/self/oom_score_adj", EXPENDABLE);
}

/// Reports whether a helper failed for lack of namespaces, which are optional.
pub(super) fn is_lacking(error: &anyhow::Error) -> bool {
    error.is::<NoNamespaces>()
}

/// Applies the outer layers to this process, starts the command inside them and watches it. `outside`: the host, for
/// the network of a policy with hosts.
pub(super) fn serve(
    control: &OwnedFd,
    policy: &Policy,
    job: OwnedFd,
    outside: Option<OwnedFd>,
) -> Result<()> {
    if !policy.layers.namespaces {
        set_child_subreaper(Some(rustix::process::getpid())).context("cannot adopt orphans")?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot close itself to others")?;
        return watched(control, policy, job, First::No);
    }
    namespaces::enter(policy).context(NoNamespaces)?;
    let servers = outside.as_ref().map(nameservers::open).transpose()?;
    match fork().context("cannot start the watcher")? {
        Fork::Child => {
            set_parent_process_death_signal(Some(Signal::KILL)).context("cannot tie itself to its parent")?;
            mounts::arrange(policy).map_err(namespaces::without_mounts)?;
            set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot close itself to others")?;
            watched(control, policy, job, First::Yes(outside.zip(servers)))
        }
        Fork::Parent(watcher) => {
            drop((job, outside));
            wait(watcher);
            Ok(())
        }
    }
}

/// Whether a watcher is the first process of new namespaces.
enum First {
    No,
    /// With the host and the addresses of name servers, if the policy has hosts.
    Yes(Option<(OwnedFd, Vec<IpAddr>)>),
}

/// Starts the command and watches it.
fn watched(control: &OwnedFd, policy: &Policy, job: OwnedFd, first: First) -> Result<()> {
    // Before the child exists, so that its end cannot be missed.
    let ended = sys::child_signals().context("cannot listen for the end of the command")?;
    let (listening, commands_end) = wire::pair().context("cannot make a pair of sockets")?;
    let command = fork_command(policy, &job, &commands_end)?;
    drop((job, commands_end));
    let (is_first, network) = match first {
        First::No => (false, None),
        First::Yes(network) => (true, network),
    };
    let (outside, servers) = network.unzip();
    let sockets =
        policy.supervises_sockets().then(|| Sockets::new(policy, outside, servers.unwrap_or_default()));
    let sockets = sockets.transpose()?;
    let observer = Observer::receive(&listening, policy, sockets);
    watch::until_gone((control, observer), &ended, command, is_first)
}

fn wait(process: Pid) {
    // Any error except an interruption means that there is no child.
    while matches!(waitpid(Some(process), WaitOptions::empty()), Err(Errno::INTR)) {}
}

/// Applies the innermost layers to this process, which then becomes the command.
pub(super) fn confine(policy: &Policy, observed: &OwnedFd) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot tie itself to its parent")?;
    let layers = policy.layers;
    if layers.capabilities {
        set_no_new_privs(true).context("cannot renounce new privileges")?;
    }
    if let Some(version) = layers.landlock.filter(|_| policy.write.is_some() || policy.read.is_some()) {
        rules::apply(policy, version)?;
    }
    if layers.capabilities {
        capabilities::drop_all(policy)?;
    }
    if layers.seccomp && policy.write.is_some() {
        seccomp::apply(policy).context("cannot apply the filter of system calls")?;
        return observe::begin(policy, observed).context("cannot tell what listens");
    }
    observe::leave_out(observed).context("cannot tell that nothing listens")
}

/// Returns `command` unchanged: the process itself is confined.
pub(super) fn wrapped(_: &Policy, command: Command) -> Command {
    command
}

/// Pure text, so its tests run on every system.
#[cfg(test)]
mod seatbelt;
