//! macOS: the command is started under a Seatbelt profile; the process that the host starts is the watcher.
//!
//! **Type-checked only:** nobody has run it on a Mac.

mod descent;
mod seatbelt;

use std::os::fd::OwnedFd;

use anyhow::Result;

pub(super) use self::seatbelt::wrapped;
use crate::confine::helper::fork_command;
use crate::confine::policy::Policy;

/// The processes of the helper that count beside the command's.
pub(super) const OWN_PROCESSES: u64 = 0;

/// Does nothing: macOS has no such setting.
pub(super) fn offer_to_oom_killer() {}

/// Returns false: no layer is optional.
pub(super) fn is_lacking(_: &anyhow::Error) -> bool {
    false
}

pub(super) fn serve(control: &OwnedFd, policy: &Policy, job: OwnedFd, _: Option<OwnedFd>) -> Result<()> {
    // Seatbelt reports no refusals, so there is no observer.
    let command = fork_command(policy, &job, &job)?;
    drop(job);
    descent::until_gone(control, command, policy.terminal)
}

/// Does nothing: the profile is part of the started command, see [`wrapped`].
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
pub(super) fn confine(_: &Policy, _: &OwnedFd) -> Result<()> {
    Ok(())
}
