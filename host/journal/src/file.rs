//! The file to which journal lines are appended. A group of lines is one `write` at the kernel's end of the file,
//! so that lines of several processes do not mix; no process waits for another.
//!
//! The name of a rotated file contains the largest `keep` of the programs that wrote to it, so that another program
//! with a smaller `keep` does not remove it. A program with a `keep` above the default creates an empty marker file
//! beside the current file, because another program may rotate it.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) use haft_core::journal::MAX_LINE;
use haft_core::limit::KeptJournal;
use jiff::Timestamp;
use rustix::fs::{FlockOperation, OFlags, flock};

pub(super) const CURRENT: &str = "journal.jsonl";

/// The prefix of rotated files; the time follows, so that names sort by time.
pub(super) const ASIDE: &str = "journal-";

/// The extension of all files.
pub(super) const ENDING: &str = ".jsonl";

/// The prefix of the marks that hold the `keep` of the current file.
const KEEP: &str = "keep-";

/// The unit of `keep` in file names.
const UNIT: (&str, u64) = ("MiB", 1 << 20);

/// Maximum time for which lines may go to a file that another process has rotated.
const LOOK: Duration = Duration::from_millis(100);

/// The current file, opened with the first line.
#[derive(Debug)]
pub(super) struct File {
    directory: PathBuf,
    table: KeptJournal,
    open: Option<Open>,
    /// Whether the open file is the current one and has room.
    is_settled: bool,
    /// The time of the last comparison of the name with the open file.
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Open {
    file: fs::File,
    /// Whether the file ends within a line, after an incomplete write.
    torn: bool,
}

impl File {
    pub(super) fn new(directory: &Path, table: KeptJournal) -> Self {
        Self { directory: directory.to_owned(), table, open: None, is_settled: false, looked: None }
    }

    /// Returns whether the next lines go to the open file.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Appends complete lines. If the current file cannot be opened, the previous file gets the lines.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let size = self.current_size();
        self.is_settled = size.is_some_and(|size| size + (lines.len() as u64) <= self.table.size);
        if !self.is_settled {
            let renewed = self.renew(size);
            self.is_settled = renewed.is_ok();
            if self.open.is_none() {
                renewed?;
            }
        }
        self.open.as_mut().map_or(Ok(()), |open| open.write(lines))
    }

    /// Opens the current file, after rotating a full one.
    fn renew(&mut self, size: Option<u64>) -> io::Result<()> {
        if size.is_some_and(|size| size > 0) {
            self.put_aside()?;
        }
        (self.open, self.looked) = (Some(Open::at(&self.directory)?), Some(Instant::now()));
        // After the file is open: a process that rotates it reads the marks directly before.
        let kept = self.table.keep;
        if kept > KeptJournal::DEFAULT_KEEP {
            open(&self.directory.join(format!("{KEEP}{}", in_unit(kept)))).map(drop)
        } else {
            Ok(())
        }
    }

    /// Returns the size of the open file if it is still the current one: another process may have rotated it, or a
    /// user removed it. The process detects a rotation with a delay: readers read the rotated file nevertheless.
    fn current_size(&mut self) -> Option<u64> {
        let open = self.open.as_ref()?;
        let metadata = open.file.metadata().ok().filter(|metadata| metadata.nlink() > 0)?;
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            let named = fs::metadata(self.directory.join(CURRENT)).ok()?;
            if (named.dev(), named.ino()) != (metadata.dev(), metadata.ino()) {
                return None;
            }
            self.looked = Some(Instant::now());
        }
        Some(metadata.len())
    }

    /// Rotates the file and removes the oldest ones, unless another process holds the lock: the file then grows by
    /// some lines.
    fn put_aside(&mut self) -> io::Result<()> {
        let lock = open(&self.directory.join("lock"))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        // Another process may have rotated it meanwhile.
        let current = self.directory.join(CURRENT);
        if fs::metadata(&current).is_ok_and(|metadata| metadata.len() > self.table.size / 2) {
            let (time, process) = (Timestamp::now().strftime("%Y%m%dT%H%M%S%.6f"), std::process::id());
            let kept = in_unit(take_kept(&self.directory)?.max(self.table.keep));
            let aside = self.directory.join(format!("{ASIDE}{time}-{process}-{kept}{ENDING}"));
            fs::rename(&current, aside)?;
        }
        // The rotation succeeded; a failure to remove old files is only logged.
        if let Err(error) = remove_old(&self.directory) {
            tracing::warn!("older files of the journal were not removed: {error}");
        }
        Ok(())
    }
}

/// Removes each file for which newer files have enough bytes. Skips files that cannot be removed.
fn remove_old(directory: &Path) -> io::Result<()> {
    let (mut newer, mut removed) = (0_u64, Ok(()));
    for path in aside(directory)?.into_iter().rev() {
        if newer >= kept(path.file_name().and_then(|name| name.to_str()).unwrap_or_default()) {
            removed = removed.and(fs::remove_file(&path));
        } else {
            newer = newer.saturating_add(fs::metadata(&path).map_or(0, |metadata| metadata.len()));
        }
    }
    removed
}

/// Returns the `keep` in a file name, in bytes.
fn kept(name: &str) -> u64 {
    let keep = name.strip_suffix(ENDING).and_then(|stem| stem.rsplit('-').next());
    keep.and_then(from_unit).unwrap_or(KeptJournal::DEFAULT_KEEP)
}

/// Removes the marks of the current file, and returns the largest `keep`.
fn take_kept(directory: &Path) -> io::Result<u64> {
    let mut most = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(kept) = name.to_str().and_then(|name| from_unit(name.strip_prefix(KEEP)?)) {
            most = most.max(kept);
            fs::remove_file(entry.path())?;
        }
    }
    Ok(most)
}

fn in_unit(bytes: u64) -> String {
    let (unit, size) = UNIT;
    format!("{}{unit}", bytes.div_ceil(size))
}

fn from_unit(text: &str) -> Option<u64> {
    let (unit, size) = UNIT;
    Some(text.strip_suffix(unit)?.parse::<u64>().ok()?.saturating_mul(size))
}

impl Open {
    fn at(directory: &Path) -> io::Result<Self> {
        create_private(directory)?;
        let file = open(&directory.join(CURRENT))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a file"));
        }
        // A line that another process is writing also looks incomplete; the result is an empty line.
        let torn = metadata.len().checked_sub(1).is_some_and(|end| !ends_line(&file, end));
        Ok(Self { file, torn })
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let whole;
        let lines = if self.torn {
            whole = [b"\n", lines].concat();
            &whole
        } else {
            lines
        };
        let written = self.file.write(lines);
        let last = written.as_ref().ok().and_then(|count| lines.get(count.checked_sub(1)?));
        self.torn = last.map_or(self.torn, |last| *last != b'\n');
        match written {
            Ok(count) if count < lines.len() => Err(io::ErrorKind::WriteZero.into()),
            written => written.map(drop),
        }
    }
}

fn ends_line(file: &fs::File, end: u64) -> bool {
    let mut last = [0];
    file.read_exact_at(&mut last, end).is_ok_and(|()| last == *b"\n")
}

/// Returns the rotated files, oldest first; none if the directory does not exist.
pub(super) fn aside(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(ASIDE) && name.ends_with(ENDING) {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Opens a file of this user alone for appending. haft creates no symbolic links, so none is followed.
fn open(path: &Path) -> io::Result<fs::File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).custom_flags(flags).open(path)
}

/// Creates the directory, or restricts an existing one to this user.
fn create_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    if fs::metadata(directory)?.mode() & 0o077 != 0 {
        fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
