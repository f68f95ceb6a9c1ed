//! Puts new content in place of a file, whole or not at all: a temporary file beside it, then a
//! rename over it. A reader sees the old file or the new one, and a crash leaves one of them.
//!
//! WASI knows no file modes. The host keeps them: it gives the new file the mode of the file
//! that the rename replaces.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

use haft_plugin::Error;

use crate::problem::{self, Action};

/// How often a name for the temporary file is made up before something else must be wrong.
const MAX_NAMES: usize = 8;

/// Bytes written at a time: what WASI takes at most.
const CHUNK: usize = 64 << 10;

/// The new content of a file, while it is written.
pub(crate) type Content = BufWriter<File>;

/// Has `write` write the whole content of the file at `path`, which takes its place unless `check` refuses then.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut Content) -> io::Result<()>,
    check: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let (temporary, file) = create_beside(path)?;
    let failed = |error| Action::Write.failed(path, &error);
    let filled = fill(file, write).map_err(failed).and_then(|()| check());
    filled.and_then(|()| fs::rename(&temporary, path).map_err(failed)).inspect_err(|_| {
        // The file that matters is untouched; a leftover would only be in the way.
        let _ = fs::remove_file(&temporary);
    })
}

/// Makes the directories that lead to `path`.
pub(crate) fn create_parents(path: &Path) -> Result<(), Error> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    if problem::is_outside(parent) {
        return Err(Action::Write.outside(path));
    }
    fs::create_dir_all(parent).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Action::Write.cannot(path, "a part of the path is a file and no directory")
        }
        _ => Action::Write.failed(path, &error),
    })
}

fn fill(file: File, write: impl FnOnce(&mut Content) -> io::Result<()>) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(CHUNK, file);
    write(&mut writer)?;
    // Before the rename, or a power cut could leave the new name with no content.
    writer.into_inner()?.sync_all()
}

fn create_beside(path: &Path) -> Result<(PathBuf, File), Error> {
    for _ in 0..MAX_NAMES {
        // Not the file's own name with something added: that can be too long.
        let name = format!(".haft-{:016x}", RandomState::new().hash_one(path));
        let temporary = path.with_file_name(name);
        match File::options().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Action::Write.failed(path, &error)),
        }
    }
    Err(Action::Write.cannot(path, format!("{MAX_NAMES} names for a temporary file beside it are all taken")))
}
