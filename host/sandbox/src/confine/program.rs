//! The program of a helper: haft itself, or the small program beside it, which starts in half the time. Refuses
//! a program that was built from other sources, and one that tools may write.

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::policy::Policy;

const SMALL: &str = "haft-confine";

/// Whether `main` of this program calls the entry point of helpers. Otherwise a started helper would run as the
/// whole program and start its own helpers, without end.
static IS_ABLE: AtomicBool = AtomicBool::new(false);

pub(super) fn is_able() {
    IS_ABLE.store(true, Ordering::Relaxed);
}

#[derive(Debug)]
pub(super) struct Programs {
    itself: Option<PathBuf>,
    small: Option<Small>,
}

#[derive(Debug)]
struct Small {
    path: PathBuf,
    /// Keeps the opened file, even if its path is replaced.
    file: File,
}

impl Programs {
    pub(super) fn only(program: PathBuf) -> Self {
        Self { itself: Some(program), small: None }
    }

    /// Returns this program and, if it is installed, the small one.
    pub(super) fn of_this_process() -> Self {
        let small = std::env::current_exe().ok().and_then(|executable| {
            let path = executable.canonicalize().ok()?.with_file_name(SMALL).canonicalize().ok()?;
            Some(Small { file: File::open(&path).ok()?, path })
        });
        let itself = IS_ABLE.load(Ordering::Relaxed).then(this_program).flatten();
        Self { itself, small }
    }

    /// Returns the same program, without the small one.
    pub(super) fn again(&self) -> Self {
        Self { itself: self.itself.clone(), small: None }
    }

    /// Returns the program to start for `policy`. A tool that may write the small program could replace it; the
    /// kernel protects the file of a running program.
    pub(super) fn for_policy(&self, policy: &Policy) -> io::Result<PathBuf> {
        match &self.small {
            Some(small) if !policy.may_write(&small.path) => Ok(opened_program(&small.file, &small.path)),
            _ => self.itself.clone().ok_or_else(|| {
                io::Error::other(
                    "this program does not call `haft::backend::entry()` first thing in its `main`, \
                     which is how it would help to confine what it starts",
                )
            }),
        }
    }

    /// Stops using the small program. Returns whether there was one.
    pub(super) fn forget_small(&mut self) -> bool {
        self.small.take().is_some()
    }
}

/// A digest of the confinement sources, computed by `build.rs`; it identifies programs that were built from
/// other sources.
pub(super) const SOURCES: u64 = match u64::from_str_radix(env!("HAFT_CONFINE_SOURCES"), 16) {
    Ok(digest) => digest,
    Err(_) => panic!("`build.rs` writes a number"),
};

/// Returns this program, even if its file was replaced since its start.
#[cfg(target_os = "linux")]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on macOS, where it may fail")]
fn this_program() -> Option<PathBuf> {
    Some("/proc/self/exe".into())
}

/// Returns the opened program, even if its path was replaced.
#[cfg(target_os = "linux")]
fn opened_program(file: &File, _path: &Path) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}

/// Returns this program. Its file must not have been replaced since its start.
#[cfg(target_os = "macos")]
fn this_program() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// Returns the program at `path`: an open file cannot be executed.
#[cfg(target_os = "macos")]
fn opened_program(_file: &File, path: &Path) -> PathBuf {
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::Layers;
    use super::*;
    use haft_core::grant::Grant;

    /// The tests' program does not call the entry point: as a helper it would run all tests again.
    #[test]
    fn a_program_that_is_no_helper_is_not_started_as_one() {
        let policy = Policy::new(&Grant::none(), Layers::NONE);
        let programs = Programs { small: None, ..Programs::of_this_process() };
        let refused = programs.for_policy(&policy).unwrap_err().to_string();
        assert!(refused.contains("`haft::backend::entry()`"), "{refused}");
        assert!(Programs::only("/bin/helper".into()).for_policy(&policy).is_ok());
    }
}
