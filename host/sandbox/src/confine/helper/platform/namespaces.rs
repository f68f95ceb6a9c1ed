//! Enters new namespaces, and classifies the errors where they are unavailable.

use std::fmt::Display;
use std::fs;
use std::io;

use anyhow::{Context as _, Result};
use rustix::io::Errno;
use rustix::process::Resource;
use rustix::thread::UnshareFlags;

use crate::confine::helper::limit;
use crate::confine::policy::Policy;
use crate::confine::sys::platform as sys;

/// Limit on the processes and threads of one call: a parallel build has a few hundred.
const MAX_PROCESSES: u64 = 512;

/// The error context for namespaces that the system does not provide, which are optional.
#[derive(Debug, thiserror::Error)]
#[error("no namespaces of its own")]
pub(super) struct NoNamespaces;

/// Classifies an error of the mounts: a refusal counts as missing namespaces, since some systems provide
/// namespaces but refuse mounts in them. Any other error may be caused by a tool, for example by a link, and
/// must not disable namespaces.
pub(super) fn without_mounts(error: anyhow::Error) -> anyhow::Error {
    let refused = |cause: &(dyn std::error::Error + 'static)| {
        let refusals = [Errno::PERM, Errno::ACCESS, Errno::NOSYS, Errno::INVAL];
        let code = cause.downcast_ref::<io::Error>().and_then(Errno::from_io_error);
        code.or_else(|| cause.downcast_ref().copied()).is_some_and(|code| refusals.contains(&code))
    };
    if error.chain().any(refused) { error.context(NoNamespaces) } else { error }
}

/// Leaves the host's namespaces.
pub(super) fn enter(policy: &Policy) -> Result<()> {
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
