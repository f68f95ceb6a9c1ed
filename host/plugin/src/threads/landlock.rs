//! The second wall around a guest, should the first one (its preopened directories) have a hole:
//! the kernel itself keeps its thread from writing outside the granted directories, from making
//! device nodes, and from signals and abstract sockets of other processes (Landlock). A thread
//! never gets out of its wall again, and whatever it starts is inside too.
//!
//! It refuses to confine haft as a whole: haft has children to mount file systems for.

use std::sync::OnceLock;

use crate::threads::writable::Writable;

/// What the kernel holds of the second wall on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandlockState {
    /// All of it.
    Full,
    /// Writing is held to the granted directories; an older kernel leaves the rest of it open.
    Partial {
        /// The kernel's version of Landlock.
        abi: u32,
    },
    /// Nothing: guests have the directories of their grant and no second wall.
    None {
        /// Why.
        reason: String,
    },
}

impl std::fmt::Display for LandlockState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Partial { abi } => {
                let open = [
                    (3, "truncating files that are open elsewhere"),
                    (5, "device controls"),
                    (6, "signals and abstract sockets"),
                ];
                let open = open.into_iter().filter(|(since, _)| abi < since).map(|(_, what)| what);
                let open = open.collect::<Vec<_>>().join(", ");
                write!(f, "partial: Landlock {abi} of this kernel does not cover {open}")
            }
            Self::None { reason } => write!(f, "none: {reason}"),
        }
    }
}

/// What the first attempt on this machine came to: after that, a wall that cannot be put up is an
/// error and never left out.
pub(crate) type FirstState = OnceLock<LandlockState>;

pub(crate) use platform::LandlockRules;

#[cfg(target_os = "linux")]
mod platform {
    use std::sync::atomic::{AtomicBool, Ordering};

    use landlock::{
        ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath,
        RestrictSelfError, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
        RulesetError, RulesetStatus, Scope, make_bitflags, path_beneath_rules,
    };

    use super::{FirstState, LandlockState};
    use crate::threads::writable::{Extent, Writable};

    /// Without the right to move files between directories (version 2), every such move is refused.
    const LEAST: ABI = ABI::V2;

    /// The newest version whose restrictions are known to suit guests.
    const MOST: ABI = ABI::V6;

    /// What no tool ever makes: through a device node, root writes to the disk itself.
    const DEVICES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeChar | MakeBlock});

    /// A wall, to be put around any number of threads.
    pub(crate) struct LandlockRules {
        ruleset: Result<RulesetCreated, String>,
        /// Whether a thread is inside already.
        has_restricted: AtomicBool,
    }

    impl LandlockRules {
        /// A wall that lets a thread write where `writable` says.
        pub(crate) fn new(writable: &Writable) -> Self {
            let ruleset = ruleset(writable).map_err(|error| reason(&error));
            Self { ruleset, has_restricted: AtomicBool::new(false) }
        }

        /// Puts the wall around the calling thread, or says why it cannot be. Where the kernel has
        /// none to offer, `verdict` says so from then on and the thread stays as it is.
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
                // A thread that was started inside has the wall from its parent and puts up another.
                // There can be 16, one within the other, and all of them are this one.
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
        // Whoever is in any wall at all moves files between directories only where that is allowed.
        let handled = if everywhere { DEVICES | AccessFs::Refer } else { written };
        // For everybody the same question, or the answer would depend on who asks first.
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_write(LEAST))?;
        let mut ruleset =
            Ruleset::default().handle_access(handled)?.scope(Scope::from_all(MOST))?.create()?;
        if everywhere {
            ruleset = ruleset.add_rules(path_beneath_rules(["/"], AccessFs::Refer))?;
        }
        for directory in writable.directories() {
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

    const MISSING: &str = "this kernel offers no Landlock (Linux 5.19 or later, with `landlock` among its \
                           security modules)";

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
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use super::{FirstState, LandlockState};
    use crate::threads::writable::Writable;

    /// Nothing: other systems confine processes, not threads.
    pub(crate) struct LandlockRules;

    impl LandlockRules {
        pub(crate) fn new(_: &Writable) -> Self {
            Self
        }

        #[expect(clippy::unnecessary_wraps, reason = "the same shape as on Linux")]
        pub(crate) fn restrict_thread(&self, verdict: &FirstState) -> Result<(), String> {
            let reason = "this system has none for single threads".into();
            verdict.get_or_init(|| LandlockState::None { reason });
            Ok(())
        }
    }
}

/// Where nothing can be written at all: for guests that are asked what they offer.
pub(crate) fn write_nowhere() -> Writable {
    Writable::default()
}
