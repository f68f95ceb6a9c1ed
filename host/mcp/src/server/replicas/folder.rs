//! The shared state in a folder: a file for the key, for each claim, and for each task. It outlives every process.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use haft_core::replicas::{Inbox, KEPT, KEY_BYTES, Replicas, RunningTask, SharedKey};
use rustix::fs::{Access, OFlags};
use secrecy::ExposeSecret;
use tokio_util::task::AbortOnDropHandle;

use super::{MAX_BYTES, MAX_CLAIMS, MAX_TASKS, too_many_claims, too_many_tasks};

/// The name of the key file.
const KEY: &str = "key";

/// The folders of claims, of the states of tasks, and of the locks of running tasks.
const CLAIMS: &str = "used";
const TASKS: &str = "tasks";
const RUNNING: &str = "running";

/// Permission bits that must not be set: those of the group and others.
const OTHERS: u32 = 0o077;

/// Maximum size in bytes of all messages to a task.
const MAX_MESSAGES: u64 = 16 << 20;

/// Interval at which a running task checks for messages.
const CHECK: Duration = Duration::from_millis(250);

#[derive(Clone, Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Creates the folder, and checks that it is writable.
    pub(super) fn create(folder: PathBuf) -> io::Result<Self> {
        let make = || {
            create_private(&folder)?;
            Ok(rustix::fs::access(&folder, Access::WRITE_OK | Access::EXEC_OK)?)
        };
        make().map_err(|error| named(&folder, &error))?;
        Ok(Self(folder))
    }

    /// Runs `access` to what is called `name` on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        name: &str,
        access: impl FnOnce(&Self, &str) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (folder, name) = (self.clone(), name.to_owned());
        let access = move || access(&folder, &name).map_err(|error| named(&folder.0, &error));
        let done = tokio::task::spawn_blocking(access);
        done.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Returns a folder in this one, which is created if missing.
    fn subfolder(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.0.join(name);
        create_private(&folder).map(|()| folder)
    }

    fn key(&self, new: &SharedKey) -> io::Result<SharedKey> {
        let path = self.0.join(KEY);
        match read_key(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write(&self.0, KEY, new.expose_secret(), false).and_then(|()| read_key(&path))
            }
            key => key,
        }
    }

    fn claim(&self, name: &str) -> io::Result<bool> {
        let folder = self.subfolder(CLAIMS)?;
        if remove_expired(&folder)?.0 >= MAX_CLAIMS {
            return Err(too_many_claims());
        }
        // The system creates the file for one of several concurrent attempts.
        match private_file().create_new(true).open(folder.join(name)) {
            Ok(file) => {
                // Before anything runs: a machine that fails does not forget it.
                file.sync_all()?;
                File::open(&folder)?.sync_all()?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates and locks the file that shows that this process runs the task.
    fn run(&self, name: &str) -> io::Result<RunningFile> {
        let (tasks, bytes) = remove_expired(&self.subfolder(TASKS)?)?;
        let folder = self.subfolder(RUNNING)?;
        remove_expired(&folder)?;
        if tasks >= MAX_TASKS || bytes >= MAX_BYTES {
            return Err(too_many_tasks());
        }
        let path = folder.join(name);
        let file = private_file().create_new(true).open(&path)?;
        let running = RunningFile { path, file };
        running.file.try_lock()?;
        Ok(running)
    }

    fn reach(&self, name: &str, message: &[u8]) -> io::Result<bool> {
        let mut file = match private_file().append(true).open(self.0.join(RUNNING).join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_running = is_locked(&file)?;
        if is_running && !message.is_empty() {
            if file.metadata()?.len() > MAX_MESSAGES {
                return Err(io::Error::other("too many messages to the task"));
            }
            file.write_all(&[message, b"\n"].concat())?;
        }
        Ok(is_running)
    }
}

/// The file of a task that this process runs. The kernel unlocks it when the process ends, however it ends.
struct RunningFile {
    path: PathBuf,
    /// The messages to the task, a line each.
    file: File,
}

/// Gives `inbox` the messages to a task.
async fn watch(running: RunningFile, inbox: Inbox) {
    let mut check = tokio::time::interval(CHECK);
    let mut lines = BufReader::new(&running.file);
    let mut line = Vec::new();
    loop {
        check.tick().await;
        while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) && line.ends_with(b"\n") {
            inbox(&line);
            line.clear();
        }
    }
}

impl Drop for RunningFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[async_trait]
impl Replicas for Folder {
    async fn key(&self, new: SharedKey) -> io::Result<SharedKey> {
        self.blocking(KEY, move |folder, _| folder.key(&new)).await
    }

    async fn claim(&self, name: &str) -> io::Result<bool> {
        self.blocking(name, Folder::claim).await
    }

    async fn store(&self, name: &str, state: Vec<u8>) -> io::Result<()> {
        self.blocking(name, move |folder, name| write(&folder.subfolder(TASKS)?, name, &state, true)).await
    }

    async fn load(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.blocking(name, |folder, name| read_state(&folder.0.join(TASKS).join(name))).await
    }

    async fn run(&self, name: &str, inbox: Inbox) -> io::Result<RunningTask> {
        let running = self.blocking(name, Folder::run).await?;
        Ok(Box::new(AbortOnDropHandle::new(tokio::spawn(watch(running, inbox)))))
    }

    async fn reach(&self, name: &str, message: &[u8]) -> io::Result<bool> {
        let message = message.to_owned();
        self.blocking(name, move |folder, name| folder.reach(name, &message)).await
    }

    fn silence(&self) -> Duration {
        Duration::ZERO
    }
}

fn named(folder: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", folder.display()))
}

fn create_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(nofollow());
    options
}

fn nofollow() -> i32 {
    i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default()
}

/// Writes a file at once, accessible to its owner alone. An existing file stays unless `replace` is given.
fn write(folder: &Path, name: &str, content: &[u8], replace: bool) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    let path = folder.join(name);
    let written = if replace { file.persist(path) } else { file.persist_noclobber(path) };
    match written {
        Ok(_) => File::open(folder)?.sync_all(),
        Err(error) if !replace && error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.error),
    }
}

fn read_key(path: &Path) -> io::Result<SharedKey> {
    let mut file = OpenOptions::new().read(true).custom_flags(nofollow()).open(path)?;
    let metadata = file.metadata()?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & OTHERS == 0;
    if !metadata.is_file() || !is_own || metadata.len() != KEY_BYTES as u64 {
        let why = "the key of approvals, `key`: expected a file that only you can read; remove it, and haft writes a new one";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut bytes = Box::new([0; KEY_BYTES]);
    file.read_exact(&mut *bytes)?;
    Ok(SharedKey::new(bytes))
}

fn read_state(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Ok(file) if is_expired(&file) => Ok(None),
        Ok(_) => fs::read(path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes the expired files of a folder that no process has locked. Returns the number and size of the others.
fn remove_expired(folder: &Path) -> io::Result<(usize, u64)> {
    let (mut count, mut bytes) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Another process may have removed it.
        let Ok(metadata) = entry.metadata() else { continue };
        let is_free =
            || File::open(entry.path()).is_ok_and(|file| is_locked(&file).is_ok_and(|locked| !locked));
        if is_expired(&metadata) && is_free() {
            let _ = fs::remove_file(entry.path());
        } else {
            count += 1;
            bytes += metadata.len();
        }
    }
    Ok((count, bytes))
}

fn is_expired(file: &fs::Metadata) -> bool {
    file.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age > KEPT))
}

fn is_locked(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::SystemTime;

    use super::*;

    fn key(byte: u8) -> SharedKey {
        SharedKey::new(Box::new([byte; KEY_BYTES]))
    }

    fn files(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        fs::read_dir(folder).unwrap().map(name).collect()
    }

    /// Makes a file older than every state is kept.
    fn age(path: &Path) {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - KEPT - CHECK).unwrap();
    }

    /// C07: of all concurrent claims one succeeds. A claim expires.
    #[test]
    fn a_name_is_claimed_once() {
        let place = tempfile::tempdir().unwrap();
        let won = std::thread::scope(|scope| {
            let claim = || Folder::create(place.path().to_owned()).unwrap().claim("7").unwrap();
            let tasks: Vec<_> = (0..8).map(|_| scope.spawn(claim)).collect();
            tasks.into_iter().map(|task| task.join().unwrap()).filter(|won| *won).count()
        });
        let (folder, claims) = (Folder(place.path().to_owned()), place.path().join(CLAIMS));
        assert_eq!((won, files(&claims).len()), (1, 1));
        age(&claims.join("7"));
        assert!(folder.claim("8").unwrap() && !folder.claim("8").unwrap());
        assert_eq!(files(&claims), ["8"]);
    }

    /// C07: the first process creates the key, and all processes use it.
    #[test]
    fn processes_that_start_together_have_one_key() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("approvals");
        let keys: Vec<_> = std::thread::scope(|scope| {
            let create = |byte| {
                let path = path.clone();
                move || *Folder::create(path).unwrap().key(&key(byte)).unwrap().expose_secret()
            };
            let tasks: Vec<_> = (0..8).map(|byte| scope.spawn(create(byte))).collect();
            tasks.into_iter().map(|task| task.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(files(&path), [KEY]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join(KEY))), (0o700, 0o600));
    }

    /// C07: a key that other users could have read or written is refused.
    #[test]
    fn a_key_that_others_know_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (folder, path) = (Folder(place.path().to_owned()), place.path().join(KEY));
        folder.key(&key(1)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            folder.key(&key(2)).unwrap_err().to_string().contains("expected a file that only you can read")
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(folder.key(&key(2)).is_err());
        fs::rename(&path, place.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(folder.key(&key(2)).is_err(), "a link");
    }

    /// A state and a lock that have expired are removed; a lock that a process holds stays.
    #[tokio::test]
    async fn states_and_locks_expire() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::create(place.path().to_owned()).unwrap();
        let [tasks, running] = [TASKS, RUNNING].map(|name| place.path().join(name));
        for name in ["1", "2"] {
            folder.store(name, b"state".to_vec()).await.unwrap();
        }
        let kept = folder.run("1").unwrap();
        fs::write(running.join("2"), "").unwrap();
        for path in [tasks.join("1"), running.join("1"), running.join("2")] {
            age(&path);
        }
        assert_eq!(folder.load("1").await.unwrap(), None);
        drop(folder.run("3").unwrap());
        assert_eq!((files(&tasks), files(&running)), (vec!["2".to_owned()], vec!["1".to_owned()]));
        assert_eq!(folder.load("2").await.unwrap().unwrap(), b"state");
        drop(kept);
    }
}
