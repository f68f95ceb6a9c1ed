//! Where installed content is kept, by its digest: once on a machine, for all its programs. What is
//! in it is never changed, and nothing is in it that was not wholly there before.

mod sweep;

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::FlockOperation;

pub use self::sweep::{SweepError, Swept, SweptEntry};
use super::folder::{sync, sync_tree};
use super::listing::{Listing, TreeError, io_error};
use super::{Content, Digest, MAX_SIZE};

/// The file of a component.
const COMPONENT: &str = "component.wasm";
/// The folder of a package.
const TREE: &str = "tree";
/// The list of its files.
const FILES: &str = "files";
/// What the directories of installs under way begin with. Each stands in the store by itself: a directory
/// around them all would be removed by one install while another makes its own in it.
const INCOMING: &str = ".incoming";
/// The list of programs whose lock files refer to content.
const PROGRAMS: &str = ".programs";
/// The lock file: held shared during an install, exclusively during `gc`.
const LOCK: &str = ".lock";

/// How long an install waits for a running `gc`, which takes a moment.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// How often it looks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The store of this machine's user.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// Why content is not to be had, or not to be kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Something is wrong with a tree or a file.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// It is not there.
    #[error("it is not installed on this machine")]
    Absent,
    /// A component is not the one that was asked for.
    #[error("`{}` was changed", .0.display())]
    Changed(PathBuf),
    /// Another process holds the lock of the store.
    #[error("`{}` is in use by another haft; try again when that is done", .0.display())]
    Busy(PathBuf),
}

/// An install under way: while it lives, nothing is cleared away. Its temporary directory goes with it.
#[derive(Debug)]
pub struct Installing {
    store: Store,
    directory: tempfile::TempDir,
    _lock: File,
}

/// While it lives, nothing is cleared away.
#[derive(Debug)]
pub struct Held {
    _lock: File,
}

impl Store {
    /// The store in the directory `root`, which need not be there yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file of the component `kept`.
    pub fn component(&self, kept: &Digest) -> PathBuf {
        self.root.join(kept.hex()).join(COMPONENT)
    }

    /// The folder of the package `kept`.
    pub fn tree(&self, kept: &Digest) -> PathBuf {
        self.root.join(kept.hex()).join(TREE)
    }

    /// The files of the package `kept`, of which none has been looked at.
    pub fn listing(&self, kept: &Digest) -> Result<Listing, StoreError> {
        let file = self.root.join(kept.hex()).join(FILES);
        if !file.exists() {
            return Err(StoreError::Absent);
        }
        Ok(Listing::read(&file, kept)?)
    }

    /// Whether something of this digest is there; whether it is whole, [`check`](Self::check) tells.
    pub fn has(&self, kept: &Digest) -> bool {
        self.root.join(kept.hex()).is_dir()
    }

    /// Reads all of `kept` and compares it with its digest.
    pub fn check(&self, kept: &Digest, is_component: bool) -> Result<(), StoreError> {
        if !self.has(kept) {
            return Err(StoreError::Absent);
        }
        if !is_component {
            return Ok(self.listing(kept)?.check(&self.tree(kept))?);
        }
        let file = self.component(kept);
        let (found, _) = Digest::of_file(&file, MAX_SIZE).map_err(io_error("read", &file))?;
        if found == *kept { Ok(()) } else { Err(StoreError::Changed(file)) }
    }

    /// Begins an install; waits for a running `gc`. What an install left behind that was killed is removed, where no other
    /// is under way.
    pub fn install(&self) -> Result<Installing, StoreError> {
        self.create(&self.root)?;
        if let Ok(_alone) = self.lock(FlockOperation::NonBlockingLockExclusive, Duration::ZERO) {
            self.clear_remains(false)?;
        }
        let lock = self.lock(FlockOperation::NonBlockingLockShared, LOCK_TIMEOUT)?;
        let directory = tempfile::Builder::new().prefix(INCOMING).tempdir_in(&self.root);
        let directory = directory.map_err(io_error("make a directory in", &self.root))?;
        Ok(Installing { store: self.clone(), directory, _lock: lock })
    }

    /// Keeps `gc` from removing anything while the returned value lives; waits for a running `gc`. `None` where
    /// nothing was ever installed.
    pub fn hold(&self) -> Result<Option<Held>, StoreError> {
        let path = self.root.join(LOCK);
        // Reading works in a store that cannot be written.
        match File::open(&path) {
            Ok(file) => Ok(Some(Held {
                _lock: locked(file, &path, FlockOperation::NonBlockingLockShared, LOCK_TIMEOUT)?,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("open", &path)(error).into()),
        }
    }

    /// Notes that the lock file at `lock` refers to content.
    pub(crate) fn register(&self, lock: &Path) -> Result<(), StoreError> {
        let lock = std::path::absolute(lock).map_err(io_error("find", lock))?;
        let folder = self.root.join(PROGRAMS);
        self.create(&folder)?;
        let bytes = lock.as_os_str().as_encoded_bytes();
        let file = folder.join(Digest::hash(bytes).hex());
        // One that an earlier haft was killed over is empty or cut off.
        if fs::read(&file).is_ok_and(|written| written == bytes) {
            return Ok(());
        }
        // Atomically: half a path would look like a program that is gone, and its content would be removed.
        let _kept = self.lock(FlockOperation::NonBlockingLockShared, LOCK_TIMEOUT)?;
        let write = || -> io::Result<()> {
            let mut new = tempfile::Builder::new().prefix(INCOMING).tempfile_in(&self.root)?;
            new.write_all(bytes)?;
            new.as_file().sync_all()?;
            new.persist(&file)?;
            File::open(&folder)?.sync_all()
        };
        Ok(write().map_err(io_error("write", &file))?)
    }

    fn create(&self, directory: &Path) -> Result<(), TreeError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(io_error("create directory", directory))
    }

    fn lock(&self, how: FlockOperation, patience: Duration) -> Result<File, StoreError> {
        let path = self.root.join(LOCK);
        let file = File::options().create(true).append(true).open(&path).map_err(io_error("open", &path))?;
        locked(file, &path, how, patience)
    }
}

/// The lock on the open `file` at `path`, which goes with the answer and with the process.
fn locked(file: File, path: &Path, how: FlockOperation, patience: Duration) -> Result<File, StoreError> {
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(file.as_fd(), how) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < patience => {
                std::thread::sleep(POLL_INTERVAL);
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(StoreError::Busy(path.parent().unwrap_or(path).to_owned()));
            }
            Err(error) => return Err(io_error("lock", path)(error.into()).into()),
        }
    }
}

impl Installing {
    /// A directory of this install alone, empty.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Puts `content`, which lies in [`directory`](Self::directory), where it is kept. What is there
    /// already and whole is left as it is; what is damaged is replaced.
    pub(crate) fn keep(&self, content: &Content, kept: &Digest) -> Result<(), StoreError> {
        let place = self.store.root.join(kept.hex());
        let is_component = matches!(content, Content::Component(_));
        match content {
            Content::Component(file) => sync(file)?,
            Content::Tree(folder, _) => sync_tree(folder)?,
        }
        // One at a time, or one would move away as damaged what another has just mended.
        let root = &self.store.root;
        let alone = File::open(root).map_err(io_error("open", root))?;
        let _alone = locked(alone, &root.join(LOCK), FlockOperation::NonBlockingLockExclusive, LOCK_TIMEOUT)?;
        if self.store.has(kept) {
            if self.store.check(kept, is_component).is_ok() {
                return Ok(touch(&place)?);
            }
            let damaged = self.directory().join("damaged");
            fs::rename(&place, &damaged).map_err(io_error("move away", &place))?;
        }
        let entry = self.directory().join("entry");
        fs::create_dir(&entry).map_err(io_error("create directory", &entry))?;
        let put = |from: &Path, name| fs::rename(from, entry.join(name)).map_err(io_error("move", from));
        match content {
            Content::Component(file) => put(file, COMPONENT)?,
            Content::Tree(folder, listing) => {
                put(folder, TREE)?;
                let text = listing.text();
                let file = entry.join(FILES);
                let written = super::folder::write(text.as_bytes(), &file, text.len() as u64, false);
                written.map_err(io_error("write", &file))?;
                sync(&file)?;
            }
        }
        sync(&entry)?;
        fs::rename(&entry, &place).map_err(io_error("move into place", &place))?;
        Ok(sync(root)?)
    }
}

/// Makes it young again: it is about to be used.
fn touch(place: &Path) -> Result<(), TreeError> {
    let now = SystemTime::now();
    File::open(place).and_then(|place| place.set_modified(now)).map_err(io_error("touch", place))
}

#[cfg(test)]
mod tests;
