//! Capabilities, of which a command has none.

use anyhow::{Context as _, Result};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::confine::policy::Policy;
use crate::confine::sys::platform as sys;

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

/// Gives up all but what `policy` leaves to root.
pub(super) fn drop_all(policy: &Policy) -> Result<()> {
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
