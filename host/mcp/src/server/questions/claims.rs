//! Records which states have been used, so that each is used once: a state is claimed before its call runs.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use ring::hmac;
use secrecy::ExposeSecret;

use haft_core::encoding::hex;
use haft_core::random;
use haft_core::replicas::{KEY_BYTES, Replicas, SharedKey};
use haft_core::sync::Lock;

/// Maximum number of stored claims, each for as long as its state is valid: more answers than people give in that time.
/// Further claims are refused.
const MAX_CLAIMS: usize = 16_384;

/// Seconds for which a claim is kept after its state has ended: clocks that share a folder differ.
const MARGIN: u64 = 60;

/// The record of used states. All processes that accept a state share one record.
#[async_trait]
pub(super) trait Claims: Debug + Send + Sync {
    /// Claims the state with the signature `tag`, which is valid until `until`, in seconds since 1970. Returns
    /// whether it was unclaimed.
    ///
    /// # Errors
    /// The claim cannot be recorded; the state must not be used then.
    async fn claim(&self, tag: &[u8; TAG], until: u64) -> io::Result<bool>;
}

/// Claims in the memory of this process.
#[derive(Debug, Default)]
pub(super) struct MemoryClaims(Lock<BTreeMap<[u8; TAG], u64>>);

/// Kept in a folder, an empty file each. It outlives every process.
#[derive(Clone, Debug)]
pub(super) struct FolderClaims(PathBuf);

/// Claims in the shared storage of all replicas.
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
    /// Creates claims below `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        Self(folder.join("used"))
    }

    fn claim(&self, tag: &[u8; TAG], until: u64) -> io::Result<bool> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        if self.sweep(unix_seconds(SystemTime::now()))? >= MAX_CLAIMS {
            return Err(full());
        }
        // The system creates the file for one of several concurrent attempts.
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

    /// Removes the claims on expired states. Returns the number of remaining claims.
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
        // Blocking, because it accesses the disk and lists the folder.
        let (folder, tag) = (self.clone(), *tag);
        let claimed = tokio::task::spawn_blocking(move || folder.claim(&tag, until)).await;
        claimed.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| {
            let folder = self.0.display();
            io::Error::new(error.kind(), format!("the answer cannot be recorded in `{folder}`: {error}"))
        })
    }
}

#[async_trait]
impl Claims for ReplicaClaims {
    async fn claim(&self, tag: &[u8; TAG], _: u64) -> io::Result<bool> {
        let claimed = self.0.claim(&hex(tag)).await;
        claimed
            .map_err(|error| io::Error::new(error.kind(), format!("the answer cannot be recorded: {error}")))
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

/// Returns the name of a claim's file: when its state ends, and which it is.
fn name(tag: &[u8; TAG], until: u64) -> String {
    format!("{until}-{}", hex(tag))
}

fn until_of(name: &str) -> Option<u64> {
    name.split_once('-').and_then(|(until, _)| until.parse().ok())
}

// The key that signs states. It is created once, in a folder readable by this user alone or where replicas share it, and
// never leaves this module otherwise.

/// Number of bytes of a key: that of the signature.
const BYTES: usize = KEY_BYTES;

/// Number of bytes of a signature.
pub(super) const TAG: usize = 32;

/// The name of the key file.
const NAME: &str = "key";

/// Permission bits that must not be set: those of the group and others.
const OTHERS: u32 = 0o077;

/// A key.
#[derive(Debug)]
pub(super) struct Key(hmac::Key);

impl Key {
    /// Returns a new random key.
    pub(super) fn generate() -> io::Result<Self> {
        Ok(Self::from_bytes(&random::bytes()?))
    }

    /// Returns the key of all processes that share `folder`; made by the first of them.
    pub(super) fn shared(folder: &Path) -> io::Result<Self> {
        let path = folder.join(NAME);
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("the key of approvals, `{}`: {error}", path.display()))
        };
        match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(folder, &path).and_then(|()| read(&path)).map_err(named)
            }
            read => read.map_err(named),
        }
    }

    /// Returns the key of all `replicas`; made by the first of them.
    pub(super) async fn of_replicas(replicas: &dyn Replicas) -> io::Result<Self> {
        let key = replicas.key(SharedKey::new(Box::new(random::bytes()?))).await;
        key.map(|key| Self::from_bytes(key.expose_secret())).map_err(|error| {
            io::Error::new(error.kind(), format!("the key of approvals is not available: {error}"))
        })
    }

    fn from_bytes(bytes: &[u8; BYTES]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    pub(super) fn sign(&self, message: &[u8]) -> [u8; TAG] {
        let mut tag = [0; TAG];
        tag.iter_mut().zip(hmac::sign(&self.0, message).as_ref()).for_each(|(own, byte)| *own = *byte);
        tag
    }

    /// Returns whether `tag` is the signature of `message`; compares in constant time.
    pub(super) fn is_signed(&self, message: &[u8], tag: &[u8; TAG]) -> bool {
        hmac::verify(&self.0, message, tag).is_ok()
    }
}

/// Creates the file with a new key atomically, unless another process was faster.
fn create(folder: &Path, path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let bytes: [u8; BYTES] = random::bytes()?;
    // Accessible to its owner alone, as all temporary files.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&bytes)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => File::open(folder)?.sync_all(),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.error),
    }
}

fn read(path: &Path) -> io::Result<Key> {
    let not_a_link = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut file = OpenOptions::new().read(true).custom_flags(not_a_link).open(path)?;
    let metadata = file.metadata()?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & OTHERS == 0;
    let mut bytes = [0; BYTES];
    if !metadata.is_file() || !is_own || metadata.len() != BYTES as u64 {
        let why = "expected a key file that only you can read; remove it, and haft writes a new one";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    file.read_exact(&mut bytes)?;
    Ok(Key::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn used(folder: &Path) -> usize {
        fs::read_dir(folder.join("used")).unwrap().count()
    }

    /// C07: of all concurrent claims one succeeds.
    #[test]
    fn a_state_is_claimed_once() {
        let folder = tempfile::tempdir().unwrap();
        let until = unix_seconds(SystemTime::now()) + 60;
        let won = std::thread::scope(|scope| {
            let claim = || FolderClaims::new(folder.path()).claim(&[7; TAG], until).unwrap();
            let tasks: Vec<_> = (0..8).map(|_| scope.spawn(claim)).collect();
            tasks.into_iter().map(|task| task.join().unwrap()).filter(|won| *won).count()
        });
        assert_eq!((won, used(folder.path())), (1, 1));
    }

    /// C07: a claim ends with its state.
    #[test]
    fn claims_end_with_their_states() {
        let folder = tempfile::tempdir().unwrap();
        let (claims, now) = (FolderClaims::new(folder.path()), unix_seconds(SystemTime::now()));
        claims.claim(&[1; TAG], now - MARGIN - 1).unwrap();
        claims.claim(&[2; TAG], now).unwrap();
        assert_eq!(used(folder.path()), 1, "the first was swept away");
        assert!(claims.claim(&[3; TAG], now + 60).unwrap() && !claims.claim(&[2; TAG], now).unwrap());
    }

    /// C07: the first process creates the key, and all processes use it.
    #[test]
    fn processes_that_begin_together_have_one_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("approvals");
        let tags: Vec<_> = std::thread::scope(|scope| {
            let tasks: Vec<_> =
                (0..8).map(|_| scope.spawn(|| Key::shared(&path).unwrap().sign(b"x"))).collect();
            tasks.into_iter().map(|task| task.join().unwrap()).collect()
        });
        assert!(tags.iter().all(|tag| *tag == tags[0]));
        let left: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [NAME]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join(NAME))), (0o700, 0o600));
    }

    /// C07: a key that other users could have read or written is refused.
    #[test]
    fn a_key_that_others_know_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        Key::shared(folder.path()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            Key::shared(folder.path()).unwrap_err().to_string().contains("expected a key file that only you")
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(Key::shared(folder.path()).is_err());
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(Key::shared(folder.path()).is_err(), "a link");
    }
}
