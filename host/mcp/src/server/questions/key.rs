//! The key that signs states. It is created once, in a folder readable by this user alone or where replicas share it, and
//! never leaves this module otherwise.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use haft_core::random;
use haft_core::replicas::{KEY_BYTES, Replicas, SharedKey};
use ring::hmac;
use secrecy::ExposeSecret;

/// Bytes of a key: as many as the signature has.
const BYTES: usize = KEY_BYTES;

/// Bytes of a signature.
pub(super) const TAG: usize = 32;

/// The name of its file.
const NAME: &str = "key";

/// Permission bits that must not be set: those of the group and others.
const OTHERS: u32 = 0o077;

/// A key.
#[derive(Debug)]
pub(super) struct Key(hmac::Key);

impl Key {
    /// A new random key.
    pub(super) fn generate() -> io::Result<Self> {
        Ok(Self::from_bytes(&random::bytes()?))
    }

    /// The key of all processes that share `folder`; made by the first of them.
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

    /// The key of all `replicas`; made by the first of them.
    pub(super) async fn of_replicas(replicas: &dyn Replicas) -> io::Result<Self> {
        let key = replicas.key(SharedKey::new(Box::new(random::bytes()?))).await;
        key.map(|key| Self::from_bytes(key.expose_secret())).map_err(|error| {
            io::Error::new(error.kind(), format!("the key of approvals cannot be had: {error}"))
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

    /// Compared in a time that says nothing of where they differ.
    pub(super) fn is_signed(&self, message: &[u8], tag: &[u8; TAG]) -> bool {
        hmac::verify(&self.0, message, tag).is_ok()
    }
}

/// Puts a new key there whole, unless another process was faster.
fn create(folder: &Path, path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let bytes: [u8; BYTES] = random::bytes()?;
    // For its owner alone, as all temporary files.
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
        let why = "not a key that only you can read; remove it, and another one is made";
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

    /// C07: the first process makes the key, and all have the same one.
    #[test]
    fn c07_processes_that_begin_together_have_one_key() {
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

    /// C07: what others could have read or written is none.
    #[test]
    fn c07_a_key_that_others_know_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        Key::shared(folder.path()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Key::shared(folder.path()).unwrap_err().to_string().contains("not a key that only you"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(Key::shared(folder.path()).is_err());
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(Key::shared(folder.path()).is_err(), "a link");
    }
}
