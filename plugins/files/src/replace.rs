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
use std::thread;
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

/// How long nothing has been written to a temporary file whose call is taken for ended: an honest one reads a large file
/// in less time, and a killed haft holds up the next change of the file for as long.
const IDLE: Duration = Duration::from_secs(10);

/// How often a call looks whether another one has changed the file.
const POLL: Duration = Duration::from_millis(5);

/// The new content of a file, while it is written.
pub(crate) type Content<'c> = BufWriter<Watched<'c>>;

/// What is written until the call's time is nearly over: what is given up then can still be removed.
pub(crate) struct Watched<'c> {
    to: &'c mut dyn Write,
    context: &'c Context,
}

/// The new content of a file, beside that file. Its name keeps out other calls that would change that file: what is read
/// after `begin` is what `finish` replaces. Removed when dropped.
pub(crate) struct Draft<'c> {
    context: &'c Context,
    path: &'c Path,
    is_new: bool,
    /// `None` where no other file can take the place of the file.
    beside: Option<(PathBuf, File)>,
}

/// Has `write` write the whole content of the file at `path`, which takes its place unless `check` refuses then.
/// `is_new` where there is no such file yet.
pub(crate) fn replace(
    context: &Context,
    (path, is_new): (&Path, bool),
    write: impl FnMut(&mut Content<'_>) -> io::Result<()>,
    check: impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    Draft::begin(context, (path, is_new))?.finish(write, check)
}

impl<'c> Draft<'c> {
    /// Waits for other calls that change the file at `path`.
    pub(crate) fn begin(context: &'c Context, (path, is_new): (&'c Path, bool)) -> Result<Self, Error> {
        if !is_new {
            // The right to its directory is none to it.
            File::options().write(true).open(path).map_err(|error| Action::Write.failed(path, &error))?;
        }
        let beside = match create_beside(context, path, if is_new { NEW } else { PRIVATE }) {
            Ok(Some(created)) => Some(created),
            Ok(None) => {
                let why = format!("{MAX_NAMES} names for a temporary file beside it are all taken");
                return Err(Action::Write.cannot(path, why));
            }
            Err(error) if !is_new && is_of_place(&error) => None,
            Err(error) => return Err(Action::Write.failed_beside(path, &error)),
        };
        Ok(Self { context, path, is_new, beside })
    }

    /// Has `write` write the whole content, which takes the place of the file unless `check` refuses then.
    pub(crate) fn finish(
        mut self,
        mut write: impl FnMut(&mut Content<'_>) -> io::Result<()>,
        check: impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (context, path) = (self.context, self.path);
        if let Some((temporary, file)) = &mut self.beside {
            // Before the rename it is on the disk, or a power cut could leave the new name with no content.
            let filled = Watched::fill(file, context, &mut write).and_then(|()| file.sync_all());
            filled.map_err(|error| Action::Write.failed(path, &failure(file, error)))?;
            check()?;
            match fs::rename(temporary, path) {
                Ok(()) => {
                    self.beside = None;
                    return Ok(());
                }
                Err(error) if self.is_new || !is_of_place(&error) => {
                    return Err(Action::Write.failed_beside(path, &error));
                }
                // It still keeps out other calls, and takes no room.
                Err(_) => _ = file.set_len(0),
            }
        }
        in_place::replace(context, path, write, check)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.beside {
            // The file that matters is untouched; a leftover would only be in the way.
            let _ = fs::remove_file(temporary);
        }
    }
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

/// Makes a temporary file, by the name that stands for this very file: other calls that change it wait, and what a killed
/// haft left of an earlier call is found by that name. `None` where all names are taken.
fn create_beside(context: &Context, path: &Path, prefix: &str) -> io::Result<Option<(PathBuf, File)>> {
    // Not the file's own name with something added: that can be too long.
    let own =
        BuildHasherDefault::<DefaultHasher>::new().hash_one(path.file_name().map(OsStr::as_encoded_bytes));
    let names = [own, own].into_iter().chain(repeat_with(|| RandomState::new().hash_one(path)));
    for name in names.take(MAX_NAMES) {
        let temporary = path.with_file_name(format!("{prefix}{name:016x}"));
        match create(context, &temporary) {
            Ok(file) => return Ok(Some((temporary, file))),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => remove_leftover(&temporary),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Makes a temporary file, once no other call is at one of this name.
fn create(context: &Context, temporary: &Path) -> io::Result<File> {
    loop {
        match File::options().write(true).create_new(true).open(temporary) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && is_at_work(temporary) => {
                if context.cancelled() {
                    return Err(error);
                }
                thread::sleep(POLL);
            }
            created => return created,
        }
    }
}

/// Whether a call is at this temporary file: somebody wrote to it lately, or it has just gone.
fn is_at_work(temporary: &Path) -> bool {
    match fs::symlink_metadata(temporary) {
        Ok(metadata) => metadata.is_file() && age(&metadata).is_some_and(|age| age < IDLE),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

fn age(metadata: &fs::Metadata) -> Option<Duration> {
    metadata.modified().ok()?.elapsed().ok()
}

/// Removes a temporary file that nobody has written to for long.
fn remove_leftover(temporary: &Path) {
    let metadata = fs::symlink_metadata(temporary).ok().filter(fs::Metadata::is_file);
    if metadata.and_then(|metadata| age(&metadata)).is_some_and(|age| age > LEFTOVER) {
        // Where it cannot be removed another name serves as well.
        let _ = fs::remove_file(temporary);
    }
}
