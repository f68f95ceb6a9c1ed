//! Which program a helper is: this one, or the small one that lies beside it and starts in half
//! the time. It refuses a file that was built from other sources, and one that tools may write.

#[cfg_attr(target_os = "linux", path = "program/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "program/platform/macos.rs")]
mod platform;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::policy::Policy;

/// The small program's name.
const SMALL: &str = "haft-confine";

/// Whether `main` of this program runs what it was started as. One that does not would run as a whole
/// where a helper is wanted, and start its own helpers, without end.
static IS_ABLE: AtomicBool = AtomicBool::new(false);

/// Says that this program can be started as a helper.
pub(super) fn is_able() {
    IS_ABLE.store(true, Ordering::Relaxed);
}

/// The programs that can be started as helpers.
#[derive(Debug)]
pub(super) struct Programs {
    itself: Option<PathBuf>,
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
        Self { itself: Some(program), small: None }
    }

    /// This program and, where it was installed whole, the small one.
    pub(super) fn of_this_process() -> Self {
        let small = std::env::current_exe().ok().and_then(|own| {
            let path = own.canonicalize().ok()?.with_file_name(SMALL).canonicalize().ok()?;
            Some(Small { file: File::open(&path).ok()?, path })
        });
        let itself = IS_ABLE.load(Ordering::Relaxed).then(platform::this_program).flatten();
        Self { itself, small }
    }

    /// The same program, without the small one.
    pub(super) fn again(&self) -> Self {
        Self { itself: self.itself.clone(), small: None }
    }

    /// What to start for `policy`. A tool that may write the small program's file could make it
    /// another one; that of a running program the kernel keeps from being written.
    pub(super) fn for_policy(&self, policy: &Policy) -> io::Result<PathBuf> {
        match &self.small {
            Some(small) if !policy.may_write(&small.path) => {
                Ok(platform::opened_program(&small.file, &small.path))
            }
            _ => self.itself.clone().ok_or_else(|| {
                io::Error::other(
                    "this program does not call `haft::backend::entry()` first thing in its `main`, \
                     which is how it would help to confine what it starts",
                )
            }),
        }
    }

    /// Does without the small program from now on. Returns whether there was one.
    pub(super) fn forget_small(&mut self) -> bool {
        self.small.take().is_some()
    }
}

/// Tells programs apart that were built from different sources of confinement. `build.rs` makes it of every file there.
pub(super) const SOURCES: u64 = match u64::from_str_radix(env!("HAFT_CONFINE_SOURCES"), 16) {
    Ok(digest) => digest,
    Err(_) => panic!("`build.rs` writes a number"),
};

#[cfg(test)]
mod tests {
    use super::super::Layers;
    use super::*;
    use haft_core::grant::Grant;

    /// The program of these tests has a `main` that is not ours: it would run all of them again.
    #[test]
    fn a_program_that_is_no_helper_is_not_started_as_one() {
        let policy = Policy::new(&Grant::none(), Layers::NONE);
        let programs = Programs { small: None, ..Programs::of_this_process() };
        let refused = programs.for_policy(&policy).unwrap_err().to_string();
        assert!(refused.contains("`haft::backend::entry()`"), "{refused}");
        assert!(Programs::only("/bin/helper".into()).for_policy(&policy).is_ok());
    }
}
