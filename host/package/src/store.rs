//! The store of installed content by digest: one per user, shared by all programs. Content in the store is
//! never changed, and is added atomically.

mod sweep;

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

pub use self::sweep::{SweepError, Swept, SweptEntry};
use super::folder::{sync, sync_tree};
use super::listing::{Listing, TreeError, io_error};
use super::{Content, Digest, MAX_SIZE};

/// The file name of a component.
const COMPONENT: &str = "component.wasm";
/// The folder name of a package's tree.
const TREE: &str = "tree";
/// The file name of a tree's listing.
const FILES: &str = "files";
/// The prefix of temporary directories of running installations. Each is directly in the store: a common parent
/// directory could be removed by one installation while another creates its own in it.
const INCOMING: &str = ".incoming";
/// The folder that records the programs whose lock files refer to content.
const PROGRAMS: &str = ".programs";
/// The lock file: locked shared during an installation, exclusively during `gc`.
const LOCK: &str = ".lock";

/// Time limit for an installation that waits for a running `gc`.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between two attempts to lock.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A user's store on this machine.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// Reasons why content cannot be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A tree or a file is invalid.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The content is not in the store.
    #[error("it is not installed on this machine")]
    Absent,
    /// A component does not match its digest.
    #[error("`{}` was changed", .0.display())]
    Changed(PathBuf),
    /// Another process holds the lock of the store.
    #[error("`{}` is in use by another haft; try again when that is done", .0.display())]
    Busy(PathBuf),
}

/// A running installation: while it exists, `gc` removes nothing. A drop removes its temporary directory.
#[derive(Debug)]
pub struct Installing {
    store: Store,
    directory: tempfile::TempDir,
    _lock: File,
}

/// A shared lock on the store, against `gc`, or on a program, against changes by other hafts.
#[derive(Debug)]
pub struct Held {
    pub(super) _lock: File,
}

impl Store {
    /// Returns the store in the directory `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the store's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the component `kept`.
    pub fn component(&self, kept: &Digest) -> PathBuf {
        self.root.join(kept.hex()).join(COMPONENT)
    }

    /// Returns the folder of the package `kept`.
    pub fn tree(&self, kept: &Digest) -> PathBuf {
        self.root.join(kept.hex()).join(TREE)
    }

    /// Reads the listing of the package `kept`; does not check its files.
    pub fn listing(&self, kept: &Digest) -> Result<Listing, StoreError> {
        let file = self.root.join(kept.hex()).join(FILES);
        if !file.exists() {
            return Err(StoreError::Absent);
        }
        Ok(Listing::read(&file, kept)?)
    }

    /// Reports whether content with this digest exists; [`check`](Self::check) verifies it.
    pub fn has(&self, kept: &Digest) -> bool {
        self.root.join(kept.hex()).is_dir()
    }

    /// Reads all of `kept` and verifies its digest.
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

    /// Starts an installation; waits for a running `gc`. Removes the remains of killed installations, if no
    /// other installation is running.
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

    /// Prevents `gc` from removing content while the returned value exists. Waits for a running `gc`. `None` if
    /// nothing was ever installed.
    pub fn hold(&self) -> Result<Option<Held>, StoreError> {
        let path = self.root.join(LOCK);
        // Opened read-only, so that it works in a store that cannot be written.
        match File::open(&path) {
            Ok(file) => Ok(Some(Held {
                _lock: locked(file, &path, FlockOperation::NonBlockingLockShared, LOCK_TIMEOUT)?,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("open", &path)(error).into()),
        }
    }

    /// Records that the lock file at `lock` refers to content.
    pub(crate) fn register(&self, lock: &Path) -> Result<(), StoreError> {
        let lock = std::path::absolute(lock).map_err(io_error("find", lock))?;
        let folder = self.root.join(PROGRAMS);
        self.create(&folder)?;
        let bytes = lock.as_os_str().as_encoded_bytes();
        let file = folder.join(Digest::hash(bytes).hex());
        // A record is empty or truncated if an earlier haft was killed during the write.
        if fs::read(&file).is_ok_and(|written| written == bytes) {
            return Ok(());
        }
        // Atomic: half a path would look like a removed program, and its content would be removed.
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

    fn lock(&self, operation: FlockOperation, patience: Duration) -> Result<File, StoreError> {
        let path = self.root.join(LOCK);
        let file = File::options().create(true).append(true).open(&path).map_err(io_error("open", &path))?;
        locked(file, &path, operation, patience)
    }
}

/// Locks the open `file` at `path`; the lock ends with the returned file or the process.
fn locked(
    file: File,
    path: &Path,
    operation: FlockOperation,
    patience: Duration,
) -> Result<File, StoreError> {
    let locked = locked_within(file, path, operation, patience)?;
    locked.ok_or_else(|| StoreError::Busy(path.parent().unwrap_or(path).to_owned()))
}

/// Locks the open `file` at `path`; `None` if another process holds the lock for all of `patience`.
pub(super) fn locked_within(
    file: File,
    path: &Path,
    operation: FlockOperation,
    patience: Duration,
) -> Result<Option<File>, TreeError> {
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(file.as_fd(), operation) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < patience => std::thread::sleep(POLL_INTERVAL),
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(io_error("lock", path)(error.into())),
        }
    }
}

impl Installing {
    /// Returns the empty directory of this installation.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Moves `content` from [`directory`](Self::directory) into the store. Valid existing content stays;
    /// damaged content is replaced.
    pub(crate) fn keep(&self, content: &Content, kept: &Digest) -> Result<(), StoreError> {
        let place = self.store.root.join(kept.hex());
        let is_component = matches!(content, Content::Component(_));
        match content {
            Content::Component(file) => sync(file)?,
            Content::Tree(folder, _) => sync_tree(folder)?,
        }
        // Exclusive: otherwise one installation could move away content that another has just repaired.
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

/// Updates the modification time: the content is about to be used.
fn touch(place: &Path) -> Result<(), TreeError> {
    let now = SystemTime::now();
    File::open(place).and_then(|place| place.set_modified(now)).map_err(io_error("touch", place))
}

#[cfg(test)]
mod tests;
