//! Drops the capabilities of a command.

use anyhow::{Context as _, Result};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::confine::policy::Policy;
use crate::confine::sys::platform as sys;

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

/// Drops all capabilities except those that `policy` permits to root.
pub(super) fn drop_all(policy: &Policy) -> Result<()> {
    let kept = if policy.write.is_none() && rustix::process::geteuid().is_root() {
        KEPT_BY_ROOT
    } else {
        CapabilitySet::empty()
    };
    for number in 0..u64::BITS {
        let is_kept = kept.bits() & (1 << number) != 0;
        // The kernel has fewer than 64 capabilities.
        if !is_kept && sys::drop_from_bounding_set(number).is_err() {
            break;
        }
    }
    let had = rustix::thread::capabilities(None).context("cannot read capabilities")?;
    let kept = had.permitted & kept;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).context("cannot drop capabilities")
}
