//! Which program a helper is: this one, or the small one that lies beside it and starts in half
//! the time. It refuses a file that was built from other sources, and one that tools may write.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::policy::Policy;

/// This program, even where its file was replaced since it was started.
const ITSELF: &str = "/proc/self/exe";
/// The small program's name.
const SMALL: &str = "haft-confine";

/// The programs that can be started as helpers.
#[derive(Debug)]
pub(super) struct Programs {
    itself: PathBuf,
    small: Option<Small>,
}

#[derive(Debug)]
struct Small {
    path: PathBuf,
    /// Keeps the file that was found, whatever comes to lie at its path.
    file: File,
}

impl Programs {
    /// `program`, and nothing beside it.
    pub(super) fn only(program: PathBuf) -> Self {
        Self { itself: program, small: None }
    }

    /// This program and, where it was installed whole, the small one.
    pub(super) fn of_this_process() -> Self {
        let small = std::env::current_exe().ok().and_then(|own| {
            let path = own.canonicalize().ok()?.with_file_name(SMALL).canonicalize().ok()?;
            Some(Small { file: File::open(&path).ok()?, path })
        });
        Self { itself: ITSELF.into(), small }
    }

    /// The same program, without the small one.
    pub(super) fn again(&self) -> Self {
        Self::only(self.itself.clone())
    }

    /// What to start for `policy`. A tool that may write the small program's file could make it
    /// another one; that of a running program the kernel keeps from being written.
    pub(super) fn for_policy(&self, policy: &Policy) -> PathBuf {
        match &self.small {
            Some(small) if !policy.may_write(&small.path) => small.running(),
            _ => self.itself.clone(),
        }
    }

    /// Does without the small program from now on. Returns whether there was one.
    pub(super) fn forget_small(&mut self) -> bool {
        self.small.take().is_some()
    }
}

impl Small {
    fn running(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.file.as_raw_fd().to_string())
    }
}

/// Tells programs apart that were built from different sources of this module.
pub(super) const SOURCES: u64 = digest(&[
    include_bytes!("helper.rs"),
    include_bytes!("layers.rs"),
    include_bytes!("mounts.rs"),
    include_bytes!("policy.rs"),
    include_bytes!("rules.rs"),
    include_bytes!("seccomp.rs"),
    include_bytes!("selftest/attempt.rs"),
    include_bytes!("selftest/escape.rs"),
    include_bytes!("selftest/files.rs"),
    include_bytes!("selftest/processes.rs"),
    include_bytes!("selftest/raw.rs"),
    include_bytes!("selftest/system.rs"),
    include_bytes!("sys.rs"),
    include_bytes!("watch.rs"),
    include_bytes!("wire.rs"),
]);

/// FNV-1a, which a compiler can compute. It keeps nobody out; it notices what was left behind by
/// an earlier build or a half-done upgrade.
const fn digest(files: &[&[u8]]) -> u64 {
    let mut digest = 0xcbf2_9ce4_8422_2325;
    let mut rest = files;
    while let [file, others @ ..] = rest {
        let mut bytes = *file;
        while let [byte, following @ ..] = bytes {
            digest = (digest ^ *byte as u64).wrapping_mul(0x0100_0000_01b3);
            bytes = following;
        }
        rest = others;
    }
    digest
}
