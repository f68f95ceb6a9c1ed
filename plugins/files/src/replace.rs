//! Puts new content in place of a file, whole or not at all: a temporary file beside it, then a
//! rename over it. A reader sees the old file or the new one, and a crash leaves one of them.
//!
//! WASI knows no file modes. The host keeps them: it gives the new file the mode of the file
//! that the rename replaces, and lets nobody but its user read one with a [`PRIVATE`] name until then.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::iter::repeat_with;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_plugin::{Context, Error};

use crate::problem::{self, Action};

/// How often a name for the temporary file is made up before something else must be wrong.
const MAX_NAMES: usize = 8;

/// Bytes written at a time: what WASI takes at most.
const CHUNK: usize = 64 << 10;

/// How the name begins of what will replace a file that there is: haft makes such a file with mode 0600.
const PRIVATE: &str = ".haft-private-";

/// How the name begins of what will be a new file: it is made with the mode that it will have.
const NEW: &str = ".haft-new-";

/// How long nothing has been written to a temporary file that was left behind: far longer than honest work pauses.
/// Should there be a slower one after all, its rename fails and its call says so.
const LEFTOVER: Duration = Duration::from_hours(1);

/// The new content of a file, while it is written.
pub(crate) type Content<'c> = BufWriter<Watched<'c>>;

/// A file that is written until the call's time is nearly over: what is given up then can still be removed.
pub(crate) struct Watched<'c> {
    file: File,
    context: &'c Context,
}

/// Has `write` write the whole content of the file at `path`, which takes its place unless `check` refuses then.
/// `is_new` where there is no such file yet.
pub(crate) fn replace(
    context: &Context,
    (path, is_new): (&Path, bool),
    write: impl FnOnce(&mut Content<'_>) -> io::Result<()>,
    check: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let (temporary, file) = create_beside(path, if is_new { NEW } else { PRIVATE })?;
    let failed = |error| Action::Write.failed(path, &error);
    let filled = fill(Watched { file, context }, write).map_err(failed).and_then(|()| check());
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

impl Watched<'_> {
    fn check(&self) -> io::Result<()> {
        if self.context.cancelled() {
            return Err(io::Error::other(
                "the call was cancelled or its time was nearly over; the file is unchanged",
            ));
        }
        Ok(())
    }
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.file.write(bytes.get(..CHUNK).unwrap_or(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn fill(file: Watched<'_>, write: impl FnOnce(&mut Content<'_>) -> io::Result<()>) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(CHUNK, file);
    write(&mut writer)?;
    let written = writer.into_inner()?;
    written.check()?;
    // Before the rename, or a power cut could leave the new name with no content.
    written.file.sync_all()
}

/// Makes a temporary file, by the name that stands for this very file if nobody is at it: what a killed haft left of an
/// earlier call is found by that name.
fn create_beside(path: &Path, prefix: &str) -> Result<(PathBuf, File), Error> {
    // Not the file's own name with something added: that can be too long.
    let own =
        BuildHasherDefault::<DefaultHasher>::new().hash_one(path.file_name().map(OsStr::as_encoded_bytes));
    let names = [own, own].into_iter().chain(repeat_with(|| RandomState::new().hash_one(path)));
    for name in names.take(MAX_NAMES) {
        let temporary = path.with_file_name(format!("{prefix}{name:016x}"));
        match File::options().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => remove_leftover(&temporary),
            Err(error) => return Err(Action::Write.failed(path, &error)),
        }
    }
    Err(Action::Write.cannot(path, format!("{MAX_NAMES} names for a temporary file beside it are all taken")))
}

/// Removes a temporary file that nobody has written to for long.
fn remove_leftover(temporary: &Path) {
    let metadata = fs::symlink_metadata(temporary).ok().filter(fs::Metadata::is_file);
    let age = metadata.and_then(|metadata| metadata.modified().ok()?.elapsed().ok());
    if age.is_some_and(|age| age > LEFTOVER) {
        // Where it cannot be removed another name serves as well.
        let _ = fs::remove_file(temporary);
    }
}
