//! The original files, stored before haft changes them. A record is on disk before its file is replaced, and a
//! restore depends on content alone, so that the change can be reverted after a kill at any moment.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use haft_core::encoding::hex;
use haft_core::replace::{self, New};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::config::read_bounded;

/// The most records: each is a file that was not undone.
const MAX_RECORDS: usize = 1000;

/// The prefix of the temporary name of a record.
const UNFINISHED: &str = ".new-";

/// The permission bits of a mode.
const PERMISSIONS: u32 = 0o777;

/// A file before and after one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The client's name.
    pub client: String,
    /// The file, by its real path.
    pub place: PathBuf,
    /// The permission bits of the file.
    mode: u32,
    /// The SHA-256 digest of `old`.
    digest: String,
    /// The original content.
    pub old: String,
    /// The text that haft wrote.
    new: String,
}

/// The record of one change.
#[derive(Clone, Debug)]
pub struct Record {
    /// The path of the record.
    path: PathBuf,
    /// The file before and after.
    pub kept: Kept,
}

/// The folder of the records.
#[derive(Clone, Debug)]
pub struct Originals {
    folder: PathBuf,
}

/// The result of reverting one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The file has its original content again.
    Restored,
    /// `haft wrap` was removed from a file that had been changed since.
    Unwrapped,
    /// The file already has its original content.
    Unneeded,
    /// The file was changed since, and stays unchanged: the first and the last differing line.
    Changed(usize, usize),
    /// The file was removed since.
    Removed,
}

/// The reason why a file cannot be changed or put back.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// A file cannot be read or written.
    #[error("cannot {action} `{}`: {error}", path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// Another program changed the file meanwhile.
    #[error("`{}` was edited at the same time and is not changed; run the command again", .0.display())]
    Meanwhile(PathBuf),
    /// Another haft changes files.
    #[error("another `haft import` is running; run the command again")]
    Busy,
    /// A record is damaged.
    #[error("`{}` is not a valid record of a file: {why}", path.display())]
    Damaged {
        /// The record.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// There are too many records.
    #[error("the limit of {MAX_RECORDS} recorded changes is reached; `haft import --undo` undoes them")]
    Full,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KeptError {
    let path = path.to_owned();
    move |error| KeptError::Io { action, path, error }
}

impl Originals {
    /// Returns the records in `folder`, which is created with the first record. No tool may have a right to it: the
    /// files may contain secrets.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Replaces the content `old` of the file at `path` by `new`, after `old` was stored.
    ///
    /// # Errors
    /// The file has another content than `old`, or it or its record cannot be written; the file is then unchanged.
    pub fn change(&self, client: &str, path: &Path, old: &str, new: &str) -> Result<(), KeptError> {
        let place = path.canonicalize().map_err(failed("find", path))?;
        let _alone = self.locked()?;
        let mode = fs::metadata(&place).map_err(failed("read", &place))?.permissions().mode() & PERMISSIONS;
        let kept = Kept {
            client: client.to_owned(),
            mode,
            digest: digest(old),
            old: old.to_owned(),
            new: new.to_owned(),
            place,
        };
        let record = self.keep(&kept)?;
        let draft = New::write(&kept.place, new.as_bytes(), mode).map_err(failed("write", &kept.place));
        let replaced = draft.and_then(|draft| match now(&kept.place)? {
            Some(now) if now == old => put(draft, &kept.place),
            _ => Err(KeptError::Meanwhile(kept.place.clone())),
        });
        replaced.inspect_err(|_| {
            // The new content may be in place even if the directory cannot be synced.
            if !matches!(now(&kept.place), Ok(Some(now)) if now == new) {
                let _ = fs::remove_file(&record);
            }
        })
    }

    /// Returns the changes that were not undone, newest first, and why others cannot be.
    ///
    /// # Errors
    /// The records cannot be listed, or another haft changes files.
    pub fn all(&self) -> Result<(Vec<Record>, Vec<KeptError>), KeptError> {
        let _alone = self.folder.exists().then(|| self.locked()).transpose()?;
        let mut names = self.names()?;
        names.sort();
        let (mut records, mut errors) = (Vec::new(), Vec::new());
        for path in names.into_iter().rev() {
            match read(&path) {
                Ok(kept) => records.push(Record { path, kept }),
                Err(error) => errors.push(error),
            }
        }
        Ok((records, errors))
    }

    /// Reverts one change. If the file was changed since, `merge` computes the new content from the current one;
    /// with `None` the file stays unchanged.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn undo(
        &self,
        record: &Record,
        merge: impl FnOnce(&str) -> Option<String>,
    ) -> Result<Undone, KeptError> {
        let _alone = self.locked()?;
        let Kept { place, old, new, mode, .. } = &record.kept;
        replace::clear(place);
        let now = now(place)?;
        let (text, undone) = match now.as_deref() {
            Some(now) if now == old => (None, Undone::Unneeded),
            Some(now) if now == new || is_torn(now, new, old) || is_torn(now, old, new) => {
                (Some(old.clone()), Undone::Restored)
            }
            Some(now) => match merge(now) {
                Some(text) if text == *old => (Some(text), Undone::Restored),
                Some(text) => (Some(text), Undone::Unwrapped),
                None => return Ok(changed(now, new)),
            },
            None => match merge("") {
                Some(text) if text == *old => (Some(text), Undone::Restored),
                _ => return Ok(Undone::Removed),
            },
        };
        if let Some(text) = text {
            put(New::write(place, text.as_bytes(), *mode).map_err(failed("write", place))?, place)?;
        }
        fs::remove_file(&record.path).map_err(failed("remove", &record.path))?;
        Ok(undone)
    }

    /// Writes a record to the disk and gives its path.
    fn keep(&self, kept: &Kept) -> Result<PathBuf, KeptError> {
        let names = self.names()?;
        if names.len() >= MAX_RECORDS {
            return Err(KeptError::Full);
        }
        let last = names.iter().filter_map(|path| path.file_stem()?.to_str()?.parse::<u64>().ok()).max();
        let path = self.folder.join(format!("{:08}.json", last.unwrap_or(0) + 1));
        let written = || -> io::Result<()> {
            let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.folder)?;
            file.as_file().set_permissions(Permissions::from_mode(0o600))?;
            file.write_all(&serde_json::to_vec(kept)?)?;
            file.as_file().sync_all()?;
            NamedTempFile::persist_noclobber(file, &path).map_err(|error| error.error)?;
            File::open(&self.folder)?.sync_all()
        };
        written().map_err(failed("write", &path))?;
        Ok(path)
    }

    /// Returns the paths of the records, in any order.
    fn names(&self) -> Result<Vec<PathBuf>, KeptError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed("read", &self.folder))?,
        };
        let paths = entries.flatten().map(|entry| entry.path());
        Ok(paths.filter(|path| path.extension().is_some_and(|end| end == "json")).collect())
    }

    /// Locks records and files against other processes of haft, and removes the temporary files of a killed
    /// process.
    fn locked(&self) -> Result<File, KeptError> {
        let make = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        let folder = make.and_then(|()| File::open(&self.folder)).map_err(failed("open", &self.folder))?;
        flock(&folder, FlockOperation::NonBlockingLockExclusive).map_err(|_| KeptError::Busy)?;
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
                // A file that stays is no record.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(folder)
    }
}

/// Replaces the file at `place`. The record may go only after the new name is on the disk.
fn put(draft: New<'_>, place: &Path) -> Result<(), KeptError> {
    let synced = || File::open(place.parent().unwrap_or(place))?.sync_data();
    draft.put().and_then(|()| synced()).map_err(failed("write", place))
}

fn read(path: &Path) -> Result<Kept, KeptError> {
    let bytes = fs::read(path).map_err(failed("read", path))?;
    let damaged = |why: String| KeptError::Damaged { path: path.to_owned(), why };
    let kept: Kept = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if digest(&kept.old) == kept.digest { Ok(kept) } else { Err(damaged("its digest differs".to_owned())) }
}

/// Returns the current content of a file; `None` if it does not exist.
fn now(path: &Path) -> Result<Option<String>, KeptError> {
    match read_bounded(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => {
            let bytes = bytes.map_err(failed("read", path))?;
            Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
        }
    }
}

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Returns whether a kill ended the writing of `new` over `old` in place: a file that has other names is not
/// replaced.
fn is_torn(now: &str, new: &str, old: &str) -> bool {
    let same = now.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    let rest = |text: &str| text.as_bytes().get(same..).unwrap_or_default().to_owned();
    same > 0 && rest(now) == rest(old)
}

/// Returns the lines of `now` that are not those of `new`.
fn changed(now: &str, new: &str) -> Undone {
    let (own, other): (Vec<_>, Vec<_>) = (now.lines().collect(), new.lines().collect());
    let head = own.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let tail = own.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    let last = own.len() - tail.min(own.len() - head);
    Undone::Changed(head + 1, last.max(head + 1))
}

#[cfg(test)]
mod tests;
