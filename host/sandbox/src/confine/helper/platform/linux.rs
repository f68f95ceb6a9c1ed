//! Linux: namespaces, Landlock, seccomp and no capabilities.
//!
//! The process that the host starts enters new namespaces and waits; their first process is the watcher.
//! Without namespaces the started process is the watcher.

mod arguments;
mod mounts;
mod nameservers;
mod observe;
mod rules;
mod seccomp;
mod sockets;
mod watch;

use std::fmt::Display;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Signal, WaitOptions, set_child_subreaper, set_dumpable_behavior,
    set_parent_process_death_signal, waitpid,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use self::observe::Observer;
use self::sockets::Sockets;
use crate::confine::helper::{NONE, fork_command, limit};
use crate::confine::policy::Policy;
use crate::confine::sys::platform as sys;
use crate::confine::sys::{Fork, fork};
use crate::confine::wire::{self, Command, REFUSED};

/// The score of a process that the OOM killer ends first, before haft and the desktop.
const EXPENDABLE: &str = "1000";

/// Limit on the processes and threads of one call: a parallel build has a few hundred.
const MAX_PROCESSES: u64 = 512;

/// The error context for namespaces that the system does not provide, which are optional.
#[derive(Debug, thiserror::Error)]
#[error("no namespaces of its own")]
struct NoNamespaces;

/// The capabilities that root keeps if it may write everything: access to files of other users, and the needs
/// of package managers. None of them can remove a mount or access another process.
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
    enter_namespaces(policy).context(NoNamespaces)?;
    let servers = outside.as_ref().map(nameservers::open).transpose()?;
    match fork().context("cannot start the watcher")? {
        Fork::Child => {
            set_parent_process_death_signal(Some(Signal::KILL)).context("cannot tie itself to its parent")?;
            mounts::arrange(policy).map_err(without_mounts)?;
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
        drop_capabilities(policy)?;
    }
    if layers.seccomp && policy.write.is_some() {
        seccomp::apply(policy).context("cannot apply the filter of system calls")?;
        return observe::begin(policy, observed).context("cannot tell what listens");
    }
    wire::send(observed, REFUSED, &[], NONE).context("cannot tell that nothing listens")
}

/// Returns `command` unchanged: the process itself is confined.
pub(super) fn wrapped(_: &Policy, command: Command) -> Command {
    command
}

/// Classifies an error of the mounts: a refusal counts as missing namespaces, since some systems provide
/// namespaces but refuse mounts in them. Any other error may be caused by a tool, for example by a link, and
/// must not disable namespaces.
fn without_mounts(error: anyhow::Error) -> anyhow::Error {
    let refused = |cause: &(dyn std::error::Error + 'static)| {
        let refusals = [Errno::PERM, Errno::ACCESS, Errno::NOSYS, Errno::INVAL];
        let code = cause.downcast_ref::<io::Error>().and_then(Errno::from_io_error);
        code.or_else(|| cause.downcast_ref().copied()).is_some_and(|code| refusals.contains(&code))
    };
    if error.chain().any(refused) { error.context(NoNamespaces) } else { error }
}

fn enter_namespaces(policy: &Policy) -> Result<()> {
    let user = (rustix::process::geteuid(), rustix::process::getegid());
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    if !policy.network {
        flags |= UnshareFlags::NEWNET;
    }
    // Root that may write everything keeps its rights over other users' files; the capability to remove mounts
    // is dropped later.
    let is_root = user.0.is_root() && policy.write.is_none();
    if !is_root || sys::unshare(flags).is_err() {
        sys::unshare(flags | UnshareFlags::NEWUSER).context("cannot enter namespaces")?;
        map("/proc/self/setgroups", "deny")?;
        map("/proc/self/uid_map", format_args!("{0} {0} 1", user.0.as_raw()))?;
        map("/proc/self/gid_map", format_args!("{0} {0} 1", user.1.as_raw()))?;
        // Counted per user, and in a new user namespace per call. Not set otherwise: it would count all
        // processes of the user, and a desktop alone has more.
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

/// Drops all capabilities except those that `policy` permits to root.
fn drop_capabilities(policy: &Policy) -> Result<()> {
    let kept = if policy.write.is_none() && rustix::process::geteuid().is_root() {
        KEPT_BY_ROOT
    } else {
        CapabilitySet::empty()
    };
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        // The kernel has fewer than 64 capabilities.
        if !kept.contains(capability) && remove_capability_from_bounding_set(capability).is_err() {
            break;
        }
    }
    let had = rustix::thread::capabilities(None).context("cannot read capabilities")?;
    let kept = had.permitted & kept;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).context("cannot drop capabilities")
}

/// Pure text, so its tests run on every system.
#[cfg(test)]
mod seatbelt;
