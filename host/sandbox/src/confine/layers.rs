//! The layers of the kernel's sandbox: those that this machine offers, and whether they are sufficient. Never
//! accepts weaker layers silently.

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
use crate::confine::sys::platform::landlock_version;

/// The optional layers of a child's confinement. Other measures always apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent layers, each of which a system may lack")]
pub struct Layers {
    /// New namespaces for mounts, processes and shared memory: paths without a grant are mounted read-only, and
    /// other processes are invisible.
    pub namespaces: bool,
    /// Landlock, with its ABI version: a second layer for writes.
    pub landlock: Option<u32>,
    /// A seccomp filter.
    pub seccomp: bool,
    /// No capabilities, and no way to gain any.
    pub capabilities: bool,
    /// Seatbelt, the sandbox of macOS, instead of all others.
    pub seatbelt: bool,
}

impl Layers {
    /// Returns the layers that this system offers. Whether namespaces are available shows when they are first
    /// created.
    #[cfg(target_os = "linux")]
    pub fn offered() -> Self {
        let seccomp = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        let landlock = landlock_version();
        Self { namespaces: true, landlock, seccomp, capabilities: true, seatbelt: false }
    }

    /// Returns Seatbelt alone, which every macOS has.
    #[cfg(target_os = "macos")]
    pub fn offered() -> Self {
        Self { seatbelt: true, ..Self::NONE }
    }

    /// No layers: the child is supervised, not confined.
    pub const NONE: Self =
        Self { namespaces: false, landlock: None, seccomp: false, capabilities: false, seatbelt: false };

    /// The first version of Landlock that controls truncation of files.
    pub const MIN_LANDLOCK: u32 = 3;
    /// The first version of Landlock that controls signals to other processes.
    pub(crate) const SIGNALS: u32 = 6;

    /// Reports whether single files in a writable directory can be protected.
    pub fn fix_files(self) -> bool {
        self.namespaces || self.seatbelt
    }

    /// Returns the strength of these layers.
    pub fn verdict(self) -> Verdict {
        if self == Self::NONE {
            return Verdict::Open;
        }
        if self.seatbelt {
            return Verdict::Reduced(SEATBELT_GAPS.to_vec());
        }
        if self.landlock.is_none_or(|version| version < Self::MIN_LANDLOCK) {
            return Verdict::Refused(refusal(self.landlock));
        }
        let mut gaps = Vec::new();
        if !self.namespaces {
            gaps.push("modes, owners and times of files outside the sandbox can be changed");
            gaps.push("names of other processes are visible");
            gaps.push(
                "tools can rewrite a program.toml in a directory that they may write; it applies at \
                the next start",
            );
            gaps.push("shared memory of other programs (`/dev/shm`) can be written");
            gaps.push("a command may start as many processes as its user may");
            if self.landlock < Some(Self::SIGNALS) {
                gaps.push("other processes of this user, also haft, can be signalled");
            }
        }
        if !self.seccomp {
            gaps.push("services of this machine are reachable through their sockets");
        }
        if gaps.is_empty() { Verdict::Full } else { Verdict::Reduced(gaps) }
    }

    /// Describes the layers, for users and the journal.
    pub fn describe(self) -> String {
        let landlock = self.landlock.map(|version| format!("landlock {version}"));
        let names = [
            self.namespaces.then(|| "namespaces".to_owned()),
            landlock,
            self.capabilities.then(|| "no capabilities".to_owned()),
            self.seccomp.then(|| "seccomp".to_owned()),
            self.seatbelt.then(|| "seatbelt".to_owned()),
        ];
        let names: Vec<_> = names.into_iter().flatten().collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

const SEATBELT_GAPS: &[&str] = &[
    "the developers have never run it on a Mac",
    "names of other processes are visible",
    "processes in a session of their own keep running after a command",
    "a command may start as many processes as its user may",
];

/// The strength of layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All promises are kept.
    Full,
    /// Files are protected against writes; these gaps remain.
    Reduced(Vec<&'static str>),
    /// Not sufficient to run anything; with the reason.
    Refused(String),
    /// Confinement is switched off.
    Open,
}

fn refusal(landlock: Option<u32>) -> String {
    let found = match landlock {
        None => "this kernel has no Landlock".to_owned(),
        Some(version) => format!("the Landlock of this kernel has version {version}"),
    };
    format!(
        "{found}; version {} or later (Linux 6.2) is needed to limit the files that a command may write. \
         Boot with `landlock` in `lsm=`, use a newer kernel, or, on a machine without valuable data, \
         `--unsafe-no-sandbox`",
        Layers::MIN_LANDLOCK
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(namespaces: bool, landlock: Option<u32>) -> Verdict {
        Layers { namespaces, landlock, seccomp: true, capabilities: true, seatbelt: false }.verdict()
    }

    /// SB08: a missing layer is reported, or confinement is refused, as in the table.
    #[test]
    fn what_is_missing_is_said_or_refused() {
        assert_eq!(with(true, Some(7)), Verdict::Full);
        assert_eq!(with(true, Some(3)), Verdict::Full);
        for landlock in [None, Some(1), Some(2)] {
            for namespaces in [true, false] {
                assert!(matches!(with(namespaces, landlock), Verdict::Refused(_)));
            }
        }
        let Verdict::Reduced(new) = with(false, Some(6)) else { panic!() };
        let Verdict::Reduced(old) = with(false, Some(5)) else { panic!() };
        assert!(old.len() == new.len() + 1 && old.last().unwrap().contains("signalled"));
        assert_eq!(Layers::NONE.verdict(), Verdict::Open);
    }
}
