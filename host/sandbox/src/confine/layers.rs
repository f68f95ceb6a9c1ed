//! The layers of the kernel's sandbox: which of them this machine offers, and whether those are
//! enough. It refuses to settle for less in silence.

#[cfg_attr(target_os = "linux", path = "layers/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "layers/platform/macos.rs")]
mod platform;

use serde::{Deserialize, Serialize};

/// Layers that confine a child. Every one but these four is always there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent layers, each of which a system may lack")]
pub struct Layers {
    /// Namespaces of its own for mounts, processes and shared memory: what is not granted is
    /// mounted read-only, and processes outside cannot be seen.
    pub namespaces: bool,
    /// Landlock, with the version of its interface: a second layer around what may be written.
    pub landlock: Option<u32>,
    /// A filter of system calls.
    pub seccomp: bool,
    /// No capability and no way to get one.
    pub capabilities: bool,
    /// Seatbelt, the sandbox of macOS, in the place of all others.
    pub seatbelt: bool,
}

impl Layers {
    /// All that this system offers. Whether namespaces can be had shows when they are first made.
    pub fn offered() -> Self {
        platform::offered()
    }

    /// None: the child is watched over, not confined.
    pub const NONE: Self =
        Self { namespaces: false, landlock: None, seccomp: false, capabilities: false, seatbelt: false };

    /// The first version of Landlock that keeps files from being truncated.
    pub const MIN_LANDLOCK: u32 = 3;
    /// The first version of Landlock that keeps processes outside from being signalled.
    pub(crate) const SIGNALS: u32 = 6;

    /// Whether a file stays as it is in a directory that a child may write.
    pub fn fix_files(self) -> bool {
        self.namespaces || self.seatbelt
    }

    /// What these layers cannot keep.
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
            gaps.push("names of other processes can be seen");
            gaps.push("a program.toml that lies where tools may write can be rewritten, and counts at the next start");
            gaps.push("shared memory of other programs (`/dev/shm`) can be written");
            gaps.push("a command may start as many processes as its user may");
            if self.landlock < Some(Self::SIGNALS) {
                gaps.push("other processes of this user, haft among them, can be signalled");
            }
        }
        if !self.seccomp {
            gaps.push("services of this machine can be reached through their sockets");
        }
        if gaps.is_empty() { Verdict::Full } else { Verdict::Reduced(gaps) }
    }

    /// The layers as a person and the journal read them.
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

/// What Seatbelt does not keep.
const SEATBELT_GAPS: &[&str] = &[
    "it has never been run on a Mac by those who wrote it",
    "names of other processes can be seen",
    "what a command leaves in a session of its own goes on",
    "a command may start as many processes as its user may",
];

/// Whether layers are enough to run a child under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything that is promised is kept.
    Full,
    /// Files are safe from being written; these things are not kept.
    Reduced(Vec<&'static str>),
    /// Not enough to run anything under.
    Refused(String),
    /// Confinement was switched off.
    Open,
}

fn refusal(landlock: Option<u32>) -> String {
    let found = match landlock {
        None => "this kernel offers no Landlock".to_owned(),
        Some(version) => format!("the Landlock of this kernel has version {version}"),
    };
    format!(
        "{found}; version {} or later (Linux 6.2) is needed to keep what a command may write. \
         Boot with `landlock` among `lsm=`, use a newer kernel, or, where everything may be lost, \
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

    /// SB08: the table of fallbacks.
    #[test]
    fn sb08_what_is_missing_is_said_or_refused() {
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
