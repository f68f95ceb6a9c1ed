//! The file of a session, opened for appending. Refuses a second writer, and a file that does not belong to this
//! user.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::SessionError;

/// The maximum size of a session in bytes: no model reads a complete conversation of this length.
pub(super) const MAX_SESSION: u64 = 256 << 20;

#[derive(Debug)]
pub(super) struct File {
    open: fs::File,
    path: PathBuf,
    id: String,
    /// The size of complete lines in bytes.
    size: u64,
    /// Whether a partial line was written: no line may follow it.
    broken: bool,
}

impl File {
    /// Creates the file, which must not exist, with the line `first`.
    pub(super) fn create(path: &Path, id: &str, first: &str) -> Result<Self, SessionError> {
        let file = options().create_new(true).open(path).map_err(SessionError::file("begin", path))?;
        let mut file = Self::locked(file, path, id)?;
        file.append(first, true)?;
        // Syncs the directory entry.
        let folder = path.parent().unwrap_or(path);
        let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(SessionError::file("begin", path))?;
        Ok(file)
    }

    /// Opens the existing file of session `id`, cuts off a partial line, and returns the text.
    pub(super) fn open(path: &Path, id: &str) -> Result<(Self, String), SessionError> {
        let file = options().open(path).map_err(SessionError::file("open", path))?;
        let mut file = Self::locked(file, path, id)?;
        let text = file.read()?;
        Ok((file, text))
    }

    fn locked(file: fs::File, path: &Path, id: &str) -> Result<Self, SessionError> {
        let failed = |error| SessionError::File { action: "open", path: path.to_owned(), error };
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "expected a file")));
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(SessionError::InUse(id.to_owned())),
            Err(error) => return Err(failed(error.into())),
        }
        let (path, id) = (path.to_owned(), id.to_owned());
        Ok(Self { open: file, path, id, size: metadata.len(), broken: false })
    }

    fn read(&mut self) -> Result<String, SessionError> {
        if self.size > MAX_SESSION {
            return Err(SessionError::Full { id: self.id.clone(), limit: MAX_SESSION });
        }
        let mut bytes = Vec::new();
        let read = self.open.seek(SeekFrom::Start(0)).and_then(|_| self.open.read_to_end(&mut bytes));
        read.map_err(SessionError::file("read", &self.path))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < bytes.len() {
            bytes.truncate(whole);
            let cut = self.open.set_len(whole as u64).and_then(|()| self.open.sync_data());
            cut.map_err(SessionError::file("mend", &self.path))?;
        }
        self.size = whole as u64;
        String::from_utf8(bytes).map_err(|_| invalid(&self.path, "it is not UTF-8"))
    }

    /// Appends a line, given without its line end. With `sync`, the line is on the disk on return.
    pub(super) fn append(&mut self, line: &str, sync: bool) -> Result<(), SessionError> {
        let more = line.len() as u64 + 1;
        if self.size + more > MAX_SESSION {
            return Err(SessionError::Full { id: self.id.clone(), limit: MAX_SESSION });
        }
        if self.broken {
            let error = io::Error::other("an earlier line was not written completely");
            return Err(SessionError::File { action: "write", path: self.path.clone(), error });
        }
        let written = self.open.write_all(format!("{line}\n").as_bytes());
        let written = written.and_then(|()| if sync { self.open.sync_data() } else { Ok(()) });
        self.broken = written.is_err();
        written.map_err(SessionError::file("write", &self.path))?;
        self.size += more;
        Ok(())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        unlock(&self.open, &self.path);
    }
}

/// Releases the lock of a file. Closing is not enough: a forked child that has not yet called `execve` holds a copy
/// of the descriptor, and the lock with it (flock(2)).
fn unlock(file: &fs::File, path: &Path) {
    if let Err(error) = flock(file, FlockOperation::Unlock) {
        tracing::debug!("the lock of `{}` goes with its descriptor: {error}", path.display());
    }
}

/// Reads the complete lines of a session that may be in use.
pub(super) fn read(path: &Path) -> Result<String, SessionError> {
    let file = options().append(false).open(path).map_err(SessionError::file("open", path))?;
    let mut bytes = Vec::new();
    file.take(MAX_SESSION).read_to_end(&mut bytes).map_err(SessionError::file("read", path))?;
    bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    String::from_utf8(bytes).map_err(|_| invalid(path, "it is not UTF-8"))
}

/// Returns whether a process uses the session in this file.
pub(super) fn is_in_use(path: &Path) -> bool {
    let Ok(file) = options().append(false).open(path) else { return false };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            unlock(&file, path);
            false
        }
        Err(error) => error == rustix::io::Errno::WOULDBLOCK,
    }
}

pub(super) fn invalid(path: &Path, why: &str) -> SessionError {
    SessionError::Invalid { path: path.to_owned(), why: why.to_owned() }
}

/// Returns options for a file of this user alone. haft creates no symbolic links, so none is followed.
fn options() -> OpenOptions {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o600).custom_flags(flags);
    options
}

/// Creates the folder, or restricts an existing one to this user.
pub(super) fn create_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if fs::metadata(folder)?.mode() & 0o077 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_cut_off_and_whole_lines_stay() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("x.jsonl");
        let mut file = File::create(&path, "x", "{}").unwrap();
        file.append("{\"a\":1}", false).unwrap();
        drop(file);
        fs::write(&path, "{}\n{\"a\":1}\n{\"b\":").unwrap();
        assert_eq!(read(&path).unwrap(), "{}\n{\"a\":1}\n");
        let (mut file, text) = File::open(&path, "x").unwrap();
        assert_eq!(text, "{}\n{\"a\":1}\n");
        file.append("{\"c\":1}", true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n{\"a\":1}\n{\"c\":1}\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_session_has_one_writer() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("x.jsonl");
        let first = File::create(&path, "x", "{}").unwrap();
        assert!(is_in_use(&path));
        assert!(matches!(File::open(&path, "x"), Err(SessionError::InUse(id)) if id == "x"));
        drop(first);
        assert!(!is_in_use(&path));
        assert!(File::open(&path, "x").is_ok());
    }

    /// Like a forked child that has not yet called `execve`.
    #[test]
    fn a_copy_of_the_descriptor_keeps_no_lock() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("x.jsonl");
        let first = File::create(&path, "x", "{}").unwrap();
        let copy = first.open.try_clone().unwrap();
        drop(first);
        assert!(File::open(&path, "x").is_ok());
        drop(copy);
    }

    #[test]
    fn a_link_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("x.jsonl"), place.path().join("other"));
        fs::write(&other, "{}\n").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(File::open(&path, "x").is_err() && read(&path).is_err());
    }
}
