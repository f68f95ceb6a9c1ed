//! macOS: the command is started under a profile of Seatbelt; the process that the host starts watches over it.
//!
//! **Type-checked only:** nobody has run it on a Mac.

mod descent;
mod seatbelt;

use std::os::fd::OwnedFd;

use anyhow::Result;

pub(super) use self::seatbelt::wrapped;
use crate::confine::helper::fork_command;
use crate::confine::policy::Policy;

/// There is no such setting.
pub(super) fn offer_to_oom_killer() {}

/// Nothing may be done without.
pub(super) fn is_lacking(_: &anyhow::Error) -> bool {
    false
}

/// Starts the command and watches over it.
pub(super) fn serve(control: &OwnedFd, policy: &Policy, job: OwnedFd) -> Result<()> {
    // Nothing is observed: Seatbelt tells nobody what it refuses.
    let command = fork_command(policy, &job, &job)?;
    drop(job);
    descent::until_gone(control, command, policy.terminal)
}

/// The profile comes with the program that is started: see [`wrapped`].
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
pub(super) fn confine(_: &Policy, _: &OwnedFd) -> Result<()> {
    Ok(())
}
