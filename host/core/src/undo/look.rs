//! The state of a path, as it is found and as it is recorded. Inspects a path through the open directory that
//! contains it: follows no symbolic link and never blocks. Records of later versions are ignored.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::encoding::hex;
use crate::grant::open_without_links;

/// The maximum size of a stored file in bytes: texts are smaller.
pub(super) const MAX_CONTENT: u64 = 8 << 20;

/// The maximum size of a compared file in bytes: reading it takes a second.
const MAX_COMPARED: u64 = 256 << 20;

/// The size of a read in bytes.
const PIECE: usize = 64 << 10;

/// Reads a regular file, and nothing in its place.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// The state of a path, with the content of a file that can be stored.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) state: State,
    pub(super) content: Option<Vec<u8>>,
}

impl Seen {
    fn of(state: State) -> Self {
        Self { state, content: None }
    }

    /// Returns the current state of an absolute path, for comparison. Only the last component may be a symbolic
    /// link.
    pub(super) fn now(path: &Path) -> io::Result<Self> {
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
pub(super) fn parent(path: &Path) -> io::Result<(File, String)> {
    let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let (Some(parent), Some(name)) = (path.parent(), name) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok((open_without_links(parent)?, name))
}

/// Returns the state of `name` in a directory. A file of more than `most` bytes is not read.
pub(super) fn at(directory: &File, name: &str, most: u64) -> io::Result<Seen> {
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
pub(super) fn look(mut file: File, most: u64) -> io::Result<Seen> {
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
pub(super) enum Record {
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
    /// A record of a later version.
    #[serde(other)]
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum State {
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
    pub(super) const PROMPT_LINE: &str = "{\"kind\":\"prompt\"}\n";
}
