//! The file that lines are added to. One `write` for all that come together, at the end of the file as the kernel
//! finds it, so that processes do not mix their lines; refuses to wait for any of the others.
//!
//! The name of a file that was put aside says how much of the journal is kept by whoever of those that wrote to it keeps
//! most, so that another program, which keeps less, does not remove it. A program that keeps more than usual says so by
//! an empty file beside the one that it writes to, since another one may put that aside.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) use haft_core::journal::MAX_LINE;
use haft_core::limit::KeptJournal;
use jiff::Timestamp;
use rustix::fs::{FlockOperation, OFlags, flock};

/// The file that is written to.
pub(super) const CURRENT: &str = "journal.jsonl";

/// What the names of files that were put aside begin with; the time follows, so that they sort by it.
pub(super) const ASIDE: &str = "journal-";

/// What the names of all files end with.
pub(super) const ENDING: &str = ".jsonl";

/// What the names of files begin with that say how much is to be kept of the one that is written to.
const KEEP: &str = "keep-";

/// The unit in which the name of a file says how much is kept.
const UNIT: (&str, u64) = ("MiB", 1 << 20);

/// How long lines may go to a file that another process has put aside.
const LOOK: Duration = Duration::from_millis(100);

/// The file, open from its first line on.
#[derive(Debug)]
pub(super) struct File {
    directory: PathBuf,
    table: KeptJournal,
    open: Option<Open>,
    /// Whether the open file is the one to write to, and stays that.
    is_settled: bool,
    /// When it was last looked at what the name stands for.
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Open {
    file: fs::File,
    /// Whether the file ends within a line: a write came to its end before the line did.
    torn: bool,
}

impl File {
    pub(super) fn new(directory: &Path, table: KeptJournal) -> Self {
        Self { directory: directory.to_owned(), table, open: None, is_settled: false, looked: None }
    }

    /// Whether the next lines will go to the file that is open.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Adds lines, which bring their own ends. Where the file to write to cannot be opened they go to the
    /// one before, if there was one.
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

    /// Opens the file to write to, after putting aside one that is full.
    fn renew(&mut self, size: Option<u64>) -> io::Result<()> {
        if size.is_some_and(|size| size > 0) {
            self.put_aside()?;
        }
        (self.open, self.looked) = (Some(Open::at(&self.directory)?), Some(Instant::now()));
        // After the file is open: who puts it aside takes what it finds right before.
        let kept = self.table.keep;
        if kept > KeptJournal::DEFAULT_KEEP {
            open(&self.directory.join(keep_name(kept))).map(drop)
        } else {
            Ok(())
        }
    }

    /// How large the open file is, if it is still the one that is to be written to: another process
    /// may have put it aside, or a person removed it. Of the former it is heard a moment later: the file
    /// is read all the same.
    fn current_size(&mut self) -> Option<u64> {
        let open = self.open.as_ref()?;
        let own = open.file.metadata().ok().filter(|own| own.nlink() > 0)?;
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            let named = fs::metadata(self.directory.join(CURRENT)).ok()?;
            if (named.dev(), named.ino()) != (own.dev(), own.ino()) {
                return None;
            }
            self.looked = Some(Instant::now());
        }
        Some(own.len())
    }

    /// Puts the file aside and removes the oldest of those, unless another process is doing that:
    /// then the file grows by a few lines more.
    fn put_aside(&mut self) -> io::Result<()> {
        let lock = open(&self.directory.join("lock"))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        // Another process may have done it in between.
        let current = self.directory.join(CURRENT);
        if fs::metadata(&current).is_ok_and(|metadata| metadata.len() > self.table.size / 2) {
            let (time, process) = (Timestamp::now().strftime("%Y%m%dT%H%M%S%.6f"), std::process::id());
            let kept = in_unit(take_kept(&self.directory)?.max(self.table.keep));
            let aside = self.directory.join(format!("{ASIDE}{time}-{process}-{kept}{ENDING}"));
            fs::rename(&current, aside)?;
        }
        // The next lines have a file of their own all the same.
        if let Err(error) = remove_old(&self.directory) {
            tracing::warn!("older files of the journal stay: {error}");
        }
        Ok(())
    }
}

/// Removes the files that are older than as much as is kept of newer ones. One that cannot be removed is passed over.
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

/// How many bytes of newer files there are to be before the one of this name goes, as it says itself.
fn kept(name: &str) -> u64 {
    let said = name.strip_suffix(ENDING).and_then(|stem| stem.rsplit('-').next());
    said.and_then(from_unit).unwrap_or(KeptJournal::DEFAULT_KEEP)
}

/// Takes away what was said of the file that is written to; the most that is to be kept.
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

fn keep_name(bytes: u64) -> String {
    format!("{KEEP}{}", in_unit(bytes))
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
        // So does a line that another process is writing right now; then an empty line comes of it.
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

/// The files that were put aside, the oldest first.
pub(super) fn aside(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(ASIDE) && name.ends_with(ENDING) {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Opens a file for adding to it, for this user alone. A link is none of haft's making.
fn open(path: &Path) -> io::Result<fs::File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).custom_flags(flags).open(path)
}

/// Makes the directory, or closes to others the one that is there.
fn create_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    if fs::metadata(directory)?.mode() & 0o077 != 0 {
        fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
