//! A program.toml with its program.lock, changed as one unit: read again under a lock, checked, and written
//! completely or not at all. Knows nothing of the installed content.

mod entries;

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

pub use self::entries::ProjectEntry;
use super::edit::EditError;
use super::listing::{TreeError, io_error};
use super::lock::{Lock, LockError, lock_path};
use super::store::{Held, POLL_INTERVAL, Store, StoreError, locked_within};
use haft_core::replace::New;
use haft_core::report::{Report, plain};
use haft_manifest::{MAX_FILE, Manifest, folder_of};

/// Time limit for a change that waits for another haft's change.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for a program start that waits for a change by another process. After it the files are read
/// unlocked: any process that can read a folder can lock it, tools included, and must not block a program that
/// way.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Both files, as read.
#[derive(Clone, Debug)]
pub struct Project {
    /// The path of program.toml, which need not exist.
    pub path: PathBuf,
    /// The text of program.toml; empty if it does not exist.
    pub text: String,
    /// The parsed program.toml.
    pub manifest: Manifest,
    /// The pins of program.lock.
    pub lock: Lock,
}

/// The new content of both files.
#[derive(Clone, Debug)]
pub struct Change {
    /// The text of program.toml.
    pub text: String,
    /// The new pins.
    pub lock: Lock,
}

/// Reasons why a program cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The program.toml is invalid.
    #[error(transparent)]
    Manifest(#[from] Report),
    /// The program.lock is invalid.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The program cannot be registered in the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be read or written.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// An entry cannot be changed.
    #[error("`{}` was not changed: {error}", path.display())]
    Edit {
        /// The file.
        path: PathBuf,
        /// The error of the edit.
        error: EditError,
    },
    /// The changed file would be invalid.
    #[error("`{}` was not changed, because the result would be invalid\n{report}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The errors of the changed file.
        report: Report,
    },
    /// Another process changed the file during the change.
    #[error("`{}` was edited at the same time and is not changed", .0.display())]
    Changed(PathBuf),
    /// Another haft holds the lock.
    #[error("another haft is changing `{}`", .0.display())]
    Busy(PathBuf),
    /// An entry of this name exists.
    #[error("`{}` already has an entry `{name}`", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// No entry of this name exists.
    #[error(
        "`{}` has no package or plugin `{}`{}", path.display(), plain(name),
        nearest.as_ref().map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default()
    )]
    NoEntry {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
        /// The entry with the most similar name.
        nearest: Option<String>,
    },
}

impl ProjectError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Lock(error) => error.hint(),
            Self::Changed(_) | Self::Busy(_) => Some("run it again"),
            Self::Taken { .. } => Some(
                "to keep both, use `haft add … --as NAME`; to replace the other, run `haft remove NAME` \
                 first",
            ),
            _ => None,
        }
    }
}

impl Project {
    /// Reads both files in a consistent state, never in the middle of a change by another haft process. A
    /// missing program.toml reads as an empty one.
    pub fn open(path: &Path) -> Result<Self, ProjectError> {
        // If the folder cannot be opened, opening its files reports the error.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let _unchanged = match File::open(parent_of(&real)) {
            Ok(folder) => Some(locked(folder, parent_of(&real), FlockOperation::NonBlockingLockShared)?),
            Err(_) => None,
        };
        Self::read(path)
    }

    /// Locks the program at `path` against changes by other hafts while the result exists; `None` if it cannot be locked, in which case
    /// the files are read anyway.
    pub async fn unchanged(path: &Path) -> Option<Held> {
        let real = fs::canonicalize(path).ok()?;
        let folder = File::open(parent_of(&real)).ok()?;
        let begun = Instant::now();
        loop {
            match rustix::fs::flock(folder.as_fd(), FlockOperation::NonBlockingLockShared) {
                Ok(()) => return Some(Held { _lock: folder }),
                Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < READ_TIMEOUT => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                Err(_) => return None,
            }
        }
    }

    fn read(path: &Path) -> Result<Self, ProjectError> {
        let text = read(path)?;
        let manifest = if let Some(text) = &text {
            let manifest = Manifest::parse(text, path)?;
            entries::check_signers(&manifest)?;
            manifest
        } else {
            let folder = folder_of(path).map_err(io_error("find", path))?;
            Manifest { path: path.to_owned(), folder, ..Manifest::default() }
        };
        let lock = Lock::load(&lock_path(path))?.unwrap_or_default();
        Ok(Self { path: path.to_owned(), text: text.unwrap_or_default(), manifest, lock })
    }

    /// Reports whether the program.toml exists.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Returns the folder of program.toml, the base of relative paths.
    pub fn folder(&self) -> &Path {
        &self.manifest.folder
    }

    /// Changes both files by applying `change` to their current content. Concurrent hafts take turns; a
    /// concurrent change by another program is detected, and kept.
    ///
    /// Both files are written to temporary files before either is renamed, the lock file first: a pin without
    /// an entry in program.toml is harmless, and a kill between the two renames is rare.
    pub fn change<E: From<ProjectError>>(
        path: &Path,
        store: &Store,
        change: impl FnOnce(&Self) -> Result<Change, E>,
    ) -> Result<(), E> {
        // A link to a program.toml stays a link; the lock file is beside the link.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = parent_of(&real);
        let opened =
            File::open(folder).map_err(|error| ProjectError::from(io_error("open", folder)(error)))?;
        let _alone = locked(opened, folder, FlockOperation::NonBlockingLockExclusive)?;
        let project = Self::read(path)?;
        let Change { text, lock } = change(&project)?;
        if let Err(report) = Manifest::parse(&text, path) {
            return Err(ProjectError::Wrong { path: path.to_owned(), report }.into());
        }
        Ok(project.rewrite(&real, store, &text, &lock)?)
    }

    /// Writes the files that change; `path` is the resolved path of program.toml.
    fn rewrite(&self, path: &Path, store: &Store, text: &str, lock: &Lock) -> Result<(), ProjectError> {
        let place = lock_path(&self.path);
        let is_needed = !lock.pins.is_empty() || !lock.servers.is_empty() || place.exists();
        let lock_text = lock.text();
        let new_lock = (is_needed && *lock != self.lock).then(|| new(&place, &lock_text));
        let new_text = (text != self.text).then(|| new(path, text));
        let (new_lock, new_text) = (new_lock.transpose()?, new_text.transpose()?);
        if new_lock.is_some() {
            store.register(&place)?;
        }
        if new_text.is_some() && read(path)?.unwrap_or_default() != self.text {
            return Err(ProjectError::Changed(path.to_owned()));
        }
        let (before, is_lock_new) = (fs::read(&place).ok(), new_lock.is_some());
        if let Some(new) = new_lock {
            new.put().map_err(io_error("write", &place))?;
        }
        if let Some(new) = new_text
            && let Err(error) = new.put().map_err(io_error("write", path))
        {
            if is_lock_new {
                take_back(&place, before.as_deref());
            }
            return Err(error.into());
        }
        for folder in [parent_of(&place), parent_of(path)] {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error("write", folder))?;
        }
        Ok(())
    }
}

fn new<'a>(path: &'a Path, text: &'a str) -> Result<New<'a>, ProjectError> {
    Ok(New::write(path, text.as_bytes(), 0o644).map_err(io_error("write", path))?)
}

/// Restores the previous lock file, because a pin without its entry has no agreement.
fn take_back(place: &Path, before: Option<&[u8]>) {
    let put = match before {
        None => fs::remove_file(place).map_err(io_error("remove", place)),
        Some(bytes) => New::write(place, bytes, 0o644).and_then(New::put).map_err(io_error("write", place)),
    };
    if let Err(error) = put {
        tracing::warn!("a pin without an entry remains: {error}");
    }
}

fn read(path: &Path) -> Result<Option<String>, ProjectError> {
    let failed = |error| ProjectError::from(io_error("read", path)(error));
    let bytes = match haft_manifest::read_bounded(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(failed)?,
    };
    if bytes.len() > MAX_FILE {
        let wrong = Manifest::parse_bytes(&bytes, path).err();
        return Err(wrong.map_or_else(|| failed(io::ErrorKind::FileTooLarge.into()), ProjectError::Manifest));
    }
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn locked(file: File, folder: &Path, operation: FlockOperation) -> Result<File, ProjectError> {
    let locked = locked_within(file, folder, operation, LOCK_TIMEOUT)?;
    locked.ok_or_else(|| ProjectError::Busy(folder.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn project() -> (tempfile::TempDir, PathBuf, Store) {
        let directory = tempfile::tempdir().unwrap();
        let (path, store) = (directory.path().join("program.toml"), directory.path().join("store"));
        fs::create_dir(&store).unwrap();
        (directory, path, Store::new(store))
    }

    fn change(path: &Path, store: &Store, text: &str) -> Result<(), ProjectError> {
        Project::change(path, store, |project| {
            Ok::<_, ProjectError>(Change { text: text.into(), lock: project.lock.clone() })
        })
    }

    #[test]
    fn a_file_keeps_its_mode_and_a_link_stays_one() {
        let (directory, path, store) = project();
        let real = directory.path().join("real.toml");
        fs::write(&real, "").unwrap();
        fs::set_permissions(&real, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("real.toml", &path).unwrap();
        change(&path, &store, "[agent]\n").unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "[agent]\n");
        assert!(path.is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    }

    /// A file with hard links, or in a folder that cannot be written, is rewritten in place; a read-only file
    /// is not.
    #[test]
    fn a_file_that_no_other_can_replace_is_written_as_it_lies_there() {
        let (directory, path, store) = project();
        fs::write(&path, "").unwrap();
        fs::hard_link(&path, directory.path().join("twin")).unwrap();
        change(&path, &store, "[agent]\n").unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("twin")).unwrap(), "[agent]\n");
    }

    #[test]
    fn what_would_be_wrong_is_not_written() {
        let (_directory, path, store) = project();
        fs::write(&path, "[agent]\n").unwrap();
        let error = change(&path, &store, "[agnet]\n").unwrap_err().to_string();
        assert!(error.contains("was not changed, because the result would be invalid"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "[agent]\n");
    }

    /// B27: after a failure the previous pins are restored.
    #[test]
    fn pins_without_their_entry_are_taken_back() {
        let (_directory, path, _) = project();
        let place = lock_path(&path);
        for before in [None, Some("before")] {
            match before {
                Some(text) => fs::write(&place, text).unwrap(),
                None => _ = fs::remove_file(&place),
            }
            new(&place, "changed").unwrap().put().unwrap();
            take_back(&place, before.map(str::as_bytes));
            assert_eq!(fs::read_to_string(&place).ok().as_deref(), before);
        }
    }

    /// C19: a reader sees both files before a change or both after it.
    #[test]
    fn both_files_are_read_as_they_belong_together() {
        let (_directory, path, store) = project();
        let is_pinned = |project: &Project| project.lock.text().contains("https://a.test/0.wasm");
        let pinned = "version = 1\n[[pin]]\nname = \"a\"\nkind = \"plugin\"\nsource = \"https://a.test/0.wasm\"\n\
             digest = \"sha256:0000000000000000000000000000000000000000000000000000000000000000\"\n\
             contracts = []\nasked = []\ngranted = []\n";
        fs::write(lock_path(&path), pinned).unwrap();
        let lock = Lock::load(&lock_path(&path)).unwrap().unwrap();
        fs::remove_file(lock_path(&path)).unwrap();
        fs::write(&path, "").unwrap();
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..100 {
                    let changed = Project::change(&path, &store, |_| {
                        let (text, lock) = if round % 2 == 0 {
                            ("[agent]\n".to_owned(), lock.clone())
                        } else {
                            (String::new(), Lock::default())
                        };
                        Ok::<_, ProjectError>(Change { text, lock })
                    });
                    changed.unwrap();
                }
                is_done.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                let project = Project::open(&path).unwrap();
                assert_eq!(is_pinned(&project), !project.text.is_empty());
            }
        });
    }

    /// An editor saves the file during the change.
    #[test]
    fn a_change_by_somebody_else_is_kept() {
        let (_directory, path, store) = project();
        fs::write(&path, "[agent]\n").unwrap();
        let changed = Project::change(&path, &store, |project| {
            fs::write(&path, "[agent] # theirs\n").unwrap();
            Ok::<_, ProjectError>(Change { text: "[sandbox]\n".into(), lock: project.lock.clone() })
        });
        assert!(matches!(changed, Err(ProjectError::Changed(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "[agent] # theirs\n");
    }
}
