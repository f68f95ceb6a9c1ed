//! Linux: Landlock.

use std::sync::atomic::{AtomicBool, Ordering};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, RestrictSelfError,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, make_bitflags, path_beneath_rules,
};

use crate::threads::landlock::{FirstState, LandlockState};
use crate::threads::writable::{Extent, Writable};

/// Without the right to move files between directories (version 2), every such move is refused.
const LEAST: ABI = ABI::V2;

/// The newest version whose restrictions are known to suit guests.
const MOST: ABI = ABI::V6;

/// File types that no tool creates: through a device node, root writes to the disk itself.
const DEVICES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeChar | MakeBlock});

/// Landlock rules, to be applied to any number of threads.
pub(crate) struct LandlockRules {
    ruleset: Result<RulesetCreated, String>,
    /// Whether a thread has been restricted with them.
    has_restricted: AtomicBool,
}

impl LandlockRules {
    pub(crate) fn new(writable: &Writable) -> Self {
        let ruleset = ruleset(writable).map_err(|error| reason(&error));
        Self { ruleset, has_restricted: AtomicBool::new(false) }
    }

    /// Restricts the calling thread permanently. If the kernel has no Landlock, `verdict` records that, and the
    /// thread stays unrestricted.
    /// Errors: The kernel's reason, where an earlier thread could be restricted.
    pub(crate) fn restrict_thread(&self, verdict: &FirstState) -> Result<(), String> {
        if matches!(verdict.get(), Some(LandlockState::None { .. })) {
            return Ok(());
        }
        let (state, outcome) = match self.restrict() {
            Ok(state) => (state, Ok(())),
            Err(reason) => (LandlockState::None { reason: reason.clone() }, Err(reason)),
        };
        match verdict.get_or_init(|| state) {
            LandlockState::None { .. } => Ok(()),
            LandlockState::Full | LandlockState::Partial { .. } => outcome,
        }
    }

    fn restrict(&self) -> Result<LandlockState, String> {
        let ruleset = self.ruleset.as_ref().map_err(String::clone)?;
        let ruleset = ruleset.try_clone().map_err(|error| error.to_string())?;
        match ruleset.restrict_self() {
            Ok(status) => {
                self.has_restricted.store(true, Ordering::Relaxed);
                Ok(state(&status))
            }
            // A thread inherits the rules of its parent and adds them once more. The kernel stacks at most 16
            // layers; all of them are these rules.
            Err(error) if is_too_many(&error) && self.has_restricted.load(Ordering::Relaxed) => {
                Ok(LandlockState::Full)
            }
            Err(error) => Err(reason(&error)),
        }
    }
}

fn ruleset(writable: &Writable) -> Result<RulesetCreated, RulesetError> {
    let written = AccessFs::from_write(MOST);
    let everywhere = writable.extent() == Extent::Everywhere;
    // A thread with any rules at all may move files between directories only where `Refer` is allowed.
    let handled = if everywhere { DEVICES | AccessFs::Refer } else { written };
    // The minimum version is required for every thread; otherwise the state would depend on the first thread.
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(LEAST))?;
    let mut ruleset = Ruleset::default().handle_access(handled)?.scope(Scope::from_all(MOST))?.create()?;
    if everywhere {
        ruleset = ruleset.add_rules(path_beneath_rules(["/"], AccessFs::Refer))?;
    }
    for (directory, _) in writable.opened() {
        ruleset = ruleset.add_rule(PathBeneath::new(directory, written & !DEVICES))?;
    }
    Ok(ruleset)
}

fn state(status: &RestrictionStatus) -> LandlockState {
    match (&status.ruleset, status.landlock) {
        (RulesetStatus::FullyEnforced, _) => LandlockState::Full,
        (_, LandlockStatus::Available { effective_abi, .. }) => {
            LandlockState::Partial { abi: effective_abi as u32 }
        }
        _ => LandlockState::None { reason: MISSING.into() },
    }
}

const MISSING: &str = "this kernel has no Landlock (Linux 5.19 or later, with `landlock` among its security \
                       modules)";

fn reason(error: &RulesetError) -> String {
    match error {
        RulesetError::HandleAccesses(_) | RulesetError::Scope(_) => MISSING.into(),
        error => format!("Landlock: {error}"),
    }
}

fn is_too_many(error: &RulesetError) -> bool {
    match error {
        RulesetError::RestrictSelf(RestrictSelfError::RestrictSelfCall { source, .. }) => {
            source.raw_os_error() == Some(rustix::io::Errno::TOOBIG.raw_os_error())
        }
        _ => false,
    }
}
