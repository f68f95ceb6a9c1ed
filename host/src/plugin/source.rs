//! Where a component's bytes come from, and their digest. Never looks inside them.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The largest component that is read: ten times one with a whole Python inside.
const MAX_COMPONENT: u64 = 256 << 20;

/// A file changed this lately could change again without its time stamps telling.
const SETTLED: Duration = Duration::from_secs(2);

/// A component.
#[derive(Clone, Debug)]
pub enum Source {
    /// Comes with haft.
    Embedded(&'static [u8]),
    /// A file.
    File(PathBuf),
}

/// SHA-256 of a component, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Digest(String);

/// What tells one state of a file from the next without reading it. The change time is the
/// kernel's and cannot be set by whoever may write the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Source {
    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Embedded(_) => None,
            Self::File(path) => Some(path),
        }
    }

    /// The component's bytes.
    pub(super) fn read(&self) -> io::Result<Cow<'static, [u8]>> {
        match self {
            Self::Embedded(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::File(path) => read_bounded(path).map(Cow::Owned),
        }
    }

    /// The state the file is in; `None` for what has no file or was changed just now.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        use std::os::unix::fs::MetadataExt;
        let Self::File(path) = self else { return None };
        let metadata = std::fs::metadata(path).ok()?;
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(metadata.ctime().try_into().ok()?);
        if changed.elapsed().ok()? < SETTLED {
            return None;
        }
        Some(Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

impl Digest {
    pub(super) fn of(bytes: &[u8]) -> Self {
        use std::fmt::Write;
        let mut text = String::with_capacity(64);
        for byte in Sha256::digest(bytes) {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO to read it would wait for somebody to write it.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_COMPONENT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_COMPONENT {
        let message = format!("larger than {} MiB", MAX_COMPONENT >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}
