//! Landlock for guests' threads: the second layer, in case of a defect in the preopened directories. The kernel
//! prevents the thread from writing outside the granted directories, from creating device nodes, and from using the
//! signals and abstract sockets of other processes. The restriction is permanent, and threads inherit it.
//!
//! haft itself is not restricted: it mounts file systems for its children.

#[cfg_attr(target_os = "linux", path = "landlock/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "landlock/platform/macos.rs")]
mod platform;

use std::sync::OnceLock;

/// The Landlock restrictions that the kernel of this machine enforces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandlockState {
    /// All rules are enforced.
    Full,
    /// Writing is restricted to the granted directories; an older kernel does not cover the rest.
    Partial {
        /// The kernel's version of Landlock.
        abi: u32,
    },
    /// None: only the preopened directories restrict guests.
    None {
        /// The reason.
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

/// The result of the first attempt on this machine. If it succeeded, a later failure is an error: no guest runs
/// without the restriction then.
pub(crate) type FirstState = OnceLock<LandlockState>;

pub(crate) use self::platform::LandlockRules;
