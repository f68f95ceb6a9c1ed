//! File errors with a remedy for a model. Every message names the path. Accesses no file, except to check whether a
//! path is in a granted directory.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::Path;

use haft_plugin::Error;

use crate::near;

/// What was being done; decides the words of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Write,
}

/// The file system's own "no", where a sandbox says "not permitted".
const EACCES: i32 = if cfg!(target_family = "wasm") { 2 } else { 13 };

impl Action {
    /// The error of an operation on `path`.
    pub(crate) fn failed(self, path: &Path, error: &io::Error) -> Error {
        match error.kind() {
            ErrorKind::PermissionDenied => self.denied(path, error),
            ErrorKind::ReadOnlyFilesystem => self.cannot(path, "the file system is read-only"),
            ErrorKind::NotFound if is_outside(path) => self.outside(path),
            ErrorKind::NotFound => self.cannot(path, near::missing(path)),
            ErrorKind::NotADirectory => self.cannot(path, "a part of the path is a file and no directory"),
            _ => self.cannot(path, words(error)),
        }
    }

    /// The error of making something beside `path`, or on the way to it.
    pub(crate) fn failed_beside(self, path: &Path, error: &io::Error) -> Error {
        let is_of_folder =
            error.kind() == ErrorKind::PermissionDenied && error.raw_os_error() == Some(EACCES);
        match path.parent().filter(|_| is_of_folder) {
            Some(folder) => self.failed(folder, error),
            None => self.failed(path, error),
        }
    }

    /// Any other reason not to do it.
    pub(crate) fn cannot(self, path: &Path, why: impl Display) -> Error {
        let verb = match self {
            Self::Read => "read",
            Self::Write => "write",
        };
        Error::failed(format!("cannot {verb} `{}`: {why}", path.display()))
    }

    /// The sandbox holds no such path.
    pub(crate) fn outside(self, path: &Path) -> Error {
        let (noun, verb) = match self {
            Self::Read => ("read", "read"),
            Self::Write => ("write", "write"),
        };
        Error::failed(format!(
            "{noun} denied: `{}` is outside the directories that this tool may {verb}",
            path.display()
        ))
    }

    fn denied(self, path: &Path, error: &io::Error) -> Error {
        if error.raw_os_error() != Some(EACCES) {
            return self.outside(path);
        }
        let noun = if self == Self::Read { "read" } else { "write" };
        Error::failed(format!("{noun} denied: the permissions of `{}` forbid it", path.display()))
    }
}

/// The system's own words for an error, without its number, which is another one in a guest.
pub(crate) fn words(error: &io::Error) -> String {
    let words = error.to_string();
    match (error.raw_os_error(), words.rsplit_once(" (os error ")) {
        (Some(_), Some((words, _))) => words.to_owned(),
        _ => words,
    }
}

/// Whether no directory on the way to `path` can be seen. What was not granted does not exist
/// for a guest, so a forbidden path looks like a missing one.
pub(crate) fn is_outside(path: &Path) -> bool {
    path.ancestors().all(|ancestor| ancestor.as_os_str().is_empty() || ancestor.symlink_metadata().is_err())
}
