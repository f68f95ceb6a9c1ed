//! Replaces the content of a file atomically: writes a temporary file beside it and renames it. A reader sees the
//! old or the new file, and a crash leaves one of them. Only a writable file is replaced.
//!
//! WASI has no file modes. The host keeps them: it gives the new file the mode, owner and attributes of the
//! replaced file, and restricts a file with a [`PRIVATE`] name to its user until then. If that is impossible, the
//! file is overwritten in place ([`in_place`]).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::iter::repeat_with;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_plugin::{Context, Error};

use crate::in_place;
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

/// What is written until the call's time is nearly over: what is given up then can still be removed.
pub(crate) struct Watched<'c> {
    to: &'c mut dyn Write,
    context: &'c Context,
}

/// Why a file was not replaced.
enum Problem {
    /// No other file can take its place.
    Place,
    /// It cannot be done in another way either.
    Failed(Error),
}

/// Has `write` write the whole content of the file at `path`, which takes its place unless `check` refuses then.
/// `is_new` where there is no such file yet.
pub(crate) fn replace(
    context: &Context,
    (path, is_new): (&Path, bool),
    mut write: impl FnMut(&mut Content<'_>) -> io::Result<()>,
    check: impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    if !is_new {
        // The right to its directory is none to it.
        File::options().write(true).open(path).map_err(|error| Action::Write.failed(path, &error))?;
    }
    match beside(context, (path, is_new), &mut write, &check) {
        Ok(()) => Ok(()),
        Err(Problem::Failed(error)) => Err(error),
        Err(Problem::Place) => in_place::replace(context, path, write, check),
    }
}

/// The same by way of a file beside it.
fn beside(
    context: &Context,
    (path, is_new): (&Path, bool),
    write: impl FnOnce(&mut Content<'_>) -> io::Result<()>,
    check: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Problem> {
    let failed = |error| Problem::Failed(Action::Write.failed(path, &error));
    let of_place = |error: io::Error| {
        if !is_new && is_of_place(&error) {
            Problem::Place
        } else {
            Problem::Failed(Action::Write.failed_beside(path, &error))
        }
    };
    let (temporary, mut file) = match create_beside(path, if is_new { NEW } else { PRIVATE }) {
        Ok(Some(created)) => created,
        Ok(None) => {
            let why = format!("{MAX_NAMES} names for a temporary file beside it are all taken");
            return Err(Problem::Failed(Action::Write.cannot(path, why)));
        }
        Err(error) => return Err(of_place(error)),
    };
    // Before the rename it is on the disk, or a power cut could leave the new name with no content.
    let filled = Watched::fill(&mut file, context, write).and_then(|()| file.sync_all());
    let filled =
        filled.map_err(|error| failed(failure(&file, error))).and_then(|()| check().map_err(Problem::Failed));
    filled.and_then(|()| fs::rename(&temporary, path).map_err(of_place)).inspect_err(|_| {
        // The file that matters is untouched; a leftover would only be in the way.
        let _ = fs::remove_file(&temporary);
    })
}

/// Whether an error says that a directory takes no file, or that no other file takes the place of one.
fn is_of_place(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::ResourceBusy
            | ErrorKind::CrossesDevices
            | ErrorKind::StorageFull
    )
}

/// Why a file could not be written: in a guest only a later call tells.
pub(crate) fn failure(file: &File, error: io::Error) -> io::Error {
    if error.raw_os_error().is_some() { file.sync_all().err().unwrap_or(error) } else { error }
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
        _ => Action::Write.failed_beside(path, &error),
    })
}

impl<'c> Watched<'c> {
    /// Has `write` write everything.
    pub(crate) fn fill(
        to: &'c mut dyn Write,
        context: &'c Context,
        write: impl FnOnce(&mut Content<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut writer = BufWriter::with_capacity(CHUNK, Self { to, context });
        write(&mut writer)?;
        writer.into_inner()?.check()
    }

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
        self.to.write(bytes.get(..CHUNK).unwrap_or(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Makes a temporary file, by the name that stands for this very file if nobody is at it: what a killed haft left of an
/// earlier call is found by that name. `None` where all names are taken.
fn create_beside(path: &Path, prefix: &str) -> io::Result<Option<(PathBuf, File)>> {
    // Not the file's own name with something added: that can be too long.
    let own =
        BuildHasherDefault::<DefaultHasher>::new().hash_one(path.file_name().map(OsStr::as_encoded_bytes));
    let names = [own, own].into_iter().chain(repeat_with(|| RandomState::new().hash_one(path)));
    for name in names.take(MAX_NAMES) {
        let temporary = path.with_file_name(format!("{prefix}{name:016x}"));
        match File::options().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok(Some((temporary, file))),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => remove_leftover(&temporary),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
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
