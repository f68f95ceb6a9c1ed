//! Records which states have been used, so that each is used once: a state is claimed before its call runs.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

use super::key::TAG;
use haft_core::encoding::hex;
use haft_core::replicas::Replicas;
use haft_core::sync::Lock;

/// Claims that are kept, each for as long as its state is good: more answers than people give in that
/// time. What comes on top is refused.
const MAX_CLAIMS: usize = 16_384;

/// Seconds for which a claim is kept after its state has ended: clocks that share a folder differ.
const MARGIN: u64 = 60;

/// The record of used states. All processes that accept the same states share one.
#[async_trait]
pub(super) trait Claims: Debug + Send + Sync {
    /// Claims the state with the signature `tag`, which is good until `until`, in seconds since 1970.
    /// Whether it was unclaimed.
    ///
    /// # Errors
    /// The claim cannot be recorded; the state must not be used then.
    async fn claim(&self, tag: &[u8; TAG], until: u64) -> io::Result<bool>;
}

/// Kept while this process lives.
#[derive(Debug, Default)]
pub(super) struct MemoryClaims(Lock<BTreeMap<[u8; TAG], u64>>);

/// Kept in a folder, an empty file each. It outlives every process.
#[derive(Clone, Debug)]
pub(super) struct FolderClaims(PathBuf);

/// Kept where all replicas find it.
#[derive(Debug)]
pub(super) struct ReplicaClaims(pub(super) Arc<dyn Replicas>);

#[async_trait]
impl Claims for MemoryClaims {
    async fn claim(&self, tag: &[u8; TAG], until: u64) -> io::Result<bool> {
        let mut claimed = self.0.lock();
        let now = unix_seconds(SystemTime::now());
        claimed.retain(|_, until| !is_over(*until, now));
        if claimed.len() >= MAX_CLAIMS {
            return Err(full());
        }
        Ok(claimed.insert(*tag, until).is_none())
    }
}

impl FolderClaims {
    /// Below `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        Self(folder.join("used"))
    }

    fn claim(&self, tag: &[u8; TAG], until: u64) -> io::Result<bool> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        if self.sweep(unix_seconds(SystemTime::now()))? >= MAX_CLAIMS {
            return Err(full());
        }
        // The system makes it for one of all that try at the same time.
        let new =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.0.join(name(tag, until)));
        match new {
            Ok(file) => {
                // Before anything runs: a machine that fails does not forget it.
                file.sync_all()?;
                File::open(&self.0)?.sync_all()?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the claims on states that have ended; how many are left.
    fn sweep(&self, now: u64) -> io::Result<usize> {
        let mut left = 0;
        for entry in std::fs::read_dir(&self.0)? {
            let entry = entry?;
            let until = entry.file_name().to_str().and_then(until_of);
            if until.is_some_and(|until| is_over(until, now)) {
                // Another process may have been faster.
                let _ = std::fs::remove_file(entry.path());
            } else {
                left += 1;
            }
        }
        Ok(left)
    }
}

#[async_trait]
impl Claims for FolderClaims {
    async fn claim(&self, tag: &[u8; TAG], until: u64) -> io::Result<bool> {
        // It waits for the disk, and lists the folder.
        let (folder, tag) = (self.clone(), *tag);
        let claimed = tokio::task::spawn_blocking(move || folder.claim(&tag, until)).await;
        claimed.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| {
            let folder = self.0.display();
            io::Error::new(error.kind(), format!("the answer cannot be noted in `{folder}`: {error}"))
        })
    }
}

#[async_trait]
impl Claims for ReplicaClaims {
    async fn claim(&self, tag: &[u8; TAG], _: u64) -> io::Result<bool> {
        let claimed = self.0.claim(&hex(tag)).await;
        claimed.map_err(|error| io::Error::new(error.kind(), format!("the answer cannot be noted: {error}")))
    }
}

/// Seconds since 1970; every process of every machine counts them alike.
pub(super) fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn is_over(until: u64, now: u64) -> bool {
    until.saturating_add(MARGIN) < now
}

fn full() -> io::Error {
    io::Error::other(format!("more than {MAX_CLAIMS} answers in a few minutes"))
}

/// The name of a claim's file: when its state ends, and which it is.
fn name(tag: &[u8; TAG], until: u64) -> String {
    format!("{until}-{}", hex(tag))
}

fn until_of(name: &str) -> Option<u64> {
    name.split_once('-').and_then(|(until, _)| until.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(folder: &Path) -> usize {
        std::fs::read_dir(folder.join("used")).unwrap().count()
    }

    /// C07: of all that claim at the same time one does.
    #[test]
    fn c07_a_state_is_claimed_once() {
        let folder = tempfile::tempdir().unwrap();
        let until = unix_seconds(SystemTime::now()) + 60;
        let won = std::thread::scope(|scope| {
            let claim = || FolderClaims::new(folder.path()).claim(&[7; TAG], until).unwrap();
            let tasks: Vec<_> = (0..8).map(|_| scope.spawn(claim)).collect();
            tasks.into_iter().map(|task| task.join().unwrap()).filter(|won| *won).count()
        });
        assert_eq!((won, used(folder.path())), (1, 1));
    }

    /// C07: nothing is kept for ever.
    #[test]
    fn c07_claims_end_with_their_states() {
        let folder = tempfile::tempdir().unwrap();
        let (claims, now) = (FolderClaims::new(folder.path()), unix_seconds(SystemTime::now()));
        claims.claim(&[1; TAG], now - MARGIN - 1).unwrap();
        claims.claim(&[2; TAG], now).unwrap();
        assert_eq!(used(folder.path()), 1, "the first was swept away");
        assert!(claims.claim(&[3; TAG], now + 60).unwrap() && !claims.claim(&[2; TAG], now).unwrap());
    }
}
