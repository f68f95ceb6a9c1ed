//! Stores the contents of files before tools of components change them, so that a person can restore them: in a
//! file of the session that no tool opens, private and bounded. Guests change files through haft alone, so every
//! change is stored; other tools are only listed by their calls.
//!
//! - **Exact.** A content is stored unmodified or not at all: a content with a secret that haft knows is not stored.
//! - **Opened early.** A guest's thread opens no file for writing: the file of the session is open before it begins.

mod restore;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{AtFlags, FileType, Mode, RawMode, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use self::restore::{Refusal, Undone, Which, undo};
use crate::encoding::hex;
use crate::grant::open_without_links;
use crate::replace::READ;
use crate::report::shortened;
use crate::secret::Redactor;
use crate::sync::Lock;

/// The maximum size of a session's file in bytes: the replaced contents of a day's work. Later changes are listed
/// as not stored.
const MAX_SESSION: u64 = 64 << 20;

/// The maximum number of stored paths of one call: more than a person reviews.
const MAX_PATHS: usize = 1000;

/// The maximum number of characters that describe a call.
const MAX_WHAT: usize = 120;

/// Stores the changes of tools in a session. Clones write to one file; the default stores nothing.
#[derive(Clone, Debug, Default)]
pub struct Keeper(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    redactor: Redactor,
    state: Lock<Kept>,
}

#[derive(Debug)]
struct Kept {
    file: File,
    bytes: u64,
    /// Whether the next record begins another prompt.
    is_new_prompt: bool,
}

impl Keeper {
    /// Stores changes in the file at `path`, which is created if missing, in a folder that no tool may open.
    ///
    /// # Errors
    /// The file cannot be opened or written.
    pub fn open(path: &Path, redactor: Redactor) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        // Ends a partial line of a process that was killed.
        if bytes > 0 {
            file.seek(SeekFrom::End(-1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        let state = Lock::new(Kept { file, bytes, is_new_prompt: false });
        Ok(Self(Some(Arc::new(Inner { path: path.to_owned(), redactor, state }))))
    }

    /// Begins another prompt: later changes belong to it.
    pub fn begin_prompt(&self) {
        if let Some(inner) = &self.0 {
            inner.state.lock().is_new_prompt = true;
        }
    }

    /// Records a call that may change things of which nothing is stored; `what` describes it.
    pub fn uncovered(&self, what: impl FnOnce() -> String) {
        if let Some(inner) = &self.0 {
            let what = shortened(&inner.redactor.redact(&what()), MAX_WHAT);
            inner.note(&Record::Uncovered { what });
        }
    }

    /// Returns the recorder for the changes of one call.
    pub fn call(&self) -> Changes {
        Changes(self.0.clone().map(|inner| Arc::new(Changing { inner, paths: Lock::default() })))
    }
}

impl Inner {
    fn note(&self, record: &Record) {
        let line = serde_json::to_string(record).unwrap_or_default() + "\n";
        let mut state = self.state.lock();
        let first = if std::mem::take(&mut state.is_new_prompt) { Record::PROMPT_LINE } else { "" };
        let line = [first, &line].concat();
        match state.file.write_all(line.as_bytes()) {
            Ok(()) => state.bytes += line.len() as u64,
            Err(error) => tracing::warn!("changes from now on cannot be undone: {error}"),
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.state.lock().bytes.saturating_add(bytes as u64) <= MAX_SESSION
    }

    /// Returns the stored content of a file, or the reason for not storing it.
    fn kept(&self, content: Option<Vec<u8>>) -> Result<Option<String>, &'static str> {
        let Some(content) = content else { return Err("the file was too large to save") };
        if !self.has_room(content.len() / 3 * 4) {
            return Err("the space for this session is used up");
        }
        let text = String::from_utf8_lossy(&content);
        if self.redactor.redact(&text) != text {
            return Err("the file contained a secret, which is not saved");
        }
        Ok(Some(STANDARD.encode(&content)))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Uses the size on disk, which includes other writers: a keeper of an earlier prompt may be dropped late.
        if self.state.lock().file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            // The call has changed nothing.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Records the changes of one call. Clones belong to one call.
#[derive(Clone, Debug, Default)]
pub struct Changes(Option<Arc<Changing>>);

#[derive(Debug)]
struct Changing {
    inner: Arc<Inner>,
    /// The changed paths, each once, and whether they can be restored.
    paths: Lock<BTreeMap<PathBuf, bool>>,
}

impl Changes {
    /// Stores the file `name` of the open `directory`, which is at `place`, before it is changed. The content is
    /// read from that directory even if the path changes meanwhile, and no symbolic link is followed.
    pub fn before(&self, directory: &File, name: &str, place: impl FnOnce() -> io::Result<PathBuf>) {
        let Some(changing) = &self.0 else { return };
        let Ok(path) = place().map(|place| place.join(name)) else { return };
        if changing.is_new(&path) {
            changing.note(path, at(directory, name, MAX_CONTENT));
        }
    }

    /// Stores an open file, which is at `place`, before it is changed; `open` opens it for reading.
    pub fn before_open(&self, place: io::Result<PathBuf>, open: impl FnOnce() -> io::Result<File>) {
        let (Some(changing), Ok(path)) = (&self.0, place) else { return };
        if changing.is_new(&path) {
            changing.note(path, open().and_then(|file| look(file, MAX_CONTENT)));
        }
    }

    /// Records the move of a folder, whose content is not stored.
    pub fn moves_folder(&self, place: io::Result<PathBuf>) {
        if let (Some(changing), Ok(place)) = (&self.0, place) {
            let what = format!("the move of the folder `{}`", place.display());
            changing.inner.note(&Record::Uncovered { what });
        }
    }

    /// Records the final state of everything that was changed. The call has ended.
    pub fn end(&self) {
        let Some(changing) = &self.0 else { return };
        let paths = std::mem::take(&mut *changing.paths.lock());
        for (path, _) in paths.into_iter().filter(|(_, is_kept)| *is_kept) {
            let is = Seen::now(&path).map_or(State::Other, |seen| seen.state);
            changing.inner.note(&Record::After { path, is });
        }
    }
}

impl Changing {
    fn is_new(&self, path: &Path) -> bool {
        let mut paths = self.paths.lock();
        if paths.contains_key(path) {
            return false;
        }
        if paths.len() >= MAX_PATHS || path.to_str().is_none() {
            self.inner.note(&Record::Uncovered { what: path.display().to_string() });
            return false;
        }
        paths.insert(path.to_owned(), false);
        true
    }

    fn note(&self, path: PathBuf, seen: io::Result<Seen>) {
        let seen = seen.unwrap_or(Seen { state: State::Other, content: None });
        let (content, lost) = match &seen.state {
            State::File { .. } => match self.inner.kept(seen.content) {
                Ok(content) => (content, None),
                Err(why) => (None, Some(why.to_owned())),
            },
            State::Large => (None, Some("the file was too large to save".to_owned())),
            State::Other => (None, Some("it could not be read, or was not a file".to_owned())),
            State::Absent | State::Link { .. } | State::Folder { .. } => (None, None),
        };
        self.paths.lock().insert(path.clone(), lost.is_none());
        self.inner.note(&Record::Before { path, was: seen.state, content, lost });
    }
}

// The state of a path, as it is found and as it is recorded. Inspects a path through the open directory that contains it:
// follows no symbolic link and never blocks.

/// The maximum size of a stored file in bytes: texts are smaller.
const MAX_CONTENT: u64 = 8 << 20;

/// The maximum size of a compared file in bytes: reading it takes a second.
const MAX_COMPARED: u64 = 256 << 20;

/// The size of a read in bytes.
const PIECE: usize = 64 << 10;

/// The state of a path, with the content of a file that can be stored.
#[derive(Debug)]
struct Seen {
    state: State,
    content: Option<Vec<u8>>,
}

impl Seen {
    fn of(state: State) -> Self {
        Self { state, content: None }
    }

    /// Returns the current state of an absolute path, for comparison. Only the last component may be a symbolic
    /// link.
    fn now(path: &Path) -> io::Result<Self> {
        match parent(path) {
            Ok((directory, name)) => at(&directory, &name, MAX_COMPARED),
            // If a component is missing, a file or a symbolic link, nothing is at the path.
            Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(Self::of(State::Absent)),
                _ => Err(error),
            },
        }
    }
}

/// Opens the directory of a path without following symbolic links, and returns it with the file name.
fn parent(path: &Path) -> io::Result<(File, String)> {
    let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let (Some(parent), Some(name)) = (path.parent(), name) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok((open_without_links(parent)?, name))
}

/// Returns the state of `name` in a directory. A file of more than `most` bytes is not read.
fn at(directory: &File, name: &str, most: u64) -> io::Result<Seen> {
    let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(Seen::of(State::Absent)),
        stat => stat?,
    };
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => look(openat(directory, name, READ, Mode::empty())?.into(), most)?,
        FileType::Directory => Seen::of(State::Folder { mode: mode(&stat) }),
        FileType::Symlink => {
            // A target that is not UTF-8 is not stored.
            let target = readlinkat(directory, name, Vec::new())?.into_string().ok();
            Seen::of(target.map_or(State::Other, |target| State::Link { target: target.into() }))
        }
        _ => Seen::of(State::Other),
    })
}

/// Returns the state of an open file. A file of more than `most` bytes is not read.
fn look(mut file: File, most: u64) -> io::Result<Seen> {
    let stat = fstat(&file)?;
    let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(Seen::of(State::Other));
    }
    if size > most {
        return Ok(Seen::of(State::Large));
    }
    let (mut hash, mut content, mut piece) = (Sha256::new(), Some(Vec::new()), vec![0; PIECE]);
    let mut left = most.saturating_add(1);
    loop {
        let count = file.read(&mut piece)?;
        let bytes = piece.get(..count).unwrap_or_default();
        left = left.saturating_sub(count as u64);
        if bytes.is_empty() {
            break;
        }
        if left == 0 {
            // The file grows during the reading.
            return Ok(Seen::of(State::Large));
        }
        hash.update(bytes);
        content = content.filter(|all: &Vec<u8>| (all.len() + bytes.len()) as u64 <= MAX_CONTENT);
        if let Some(all) = &mut content {
            all.extend_from_slice(bytes);
        }
    }
    Ok(Seen { state: State::File { mode: mode(&stat), sha256: hex(&hash.finalize()) }, content })
}

/// Returns the permission bits, set-user-ID, set-group-ID and sticky.
fn mode(stat: &Stat) -> RawMode {
    Mode::from_raw_mode(stat.st_mode).bits()
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Record {
    /// The following records belong to another prompt.
    Prompt,
    /// The state of a path before a call changed it.
    Before {
        path: PathBuf,
        was: State,
        /// The content of a file, in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// The reason why the state cannot be restored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lost: Option<String>,
    },
    After {
        path: PathBuf,
        is: State,
    },
    /// A call that may have changed things of which nothing is stored.
    Uncovered {
        what: String,
    },
    /// Paths that the user restored to their state before the prompt of this number.
    Undone {
        prompt: usize,
        paths: Vec<PathBuf>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
enum State {
    Absent,
    File {
        mode: RawMode,
        sha256: String,
    },
    Link {
        target: PathBuf,
    },
    Folder {
        mode: RawMode,
    },
    /// A file that is too large to be stored or compared.
    Large,
    /// A device, or an unreadable file.
    Other,
}

impl Record {
    /// The serialised form of [`Self::Prompt`].
    const PROMPT_LINE: &str = "{\"kind\":\"prompt\"}\n";
}

#[cfg(test)]
mod tests;
