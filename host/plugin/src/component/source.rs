//! The source of a component's bytes, and their digest.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flate2::bufread::GzDecoder;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use haft_core::encoding::hex;

/// Maximum number of bytes of a component: ten times a component with a complete Python.
const MAX_COMPONENT: u64 = 256 << 20;

/// Maximum number of bytes of a WIT package beside a component.
const MAX_SIBLING_WIT: u64 = 2 << 20;

/// A file changed this lately could change again without its time stamps telling.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// A component.
#[derive(Clone, Debug)]
pub enum Source {
    /// Part of the program.
    Embedded(&'static [u8]),
    /// Part of the program, compressed.
    Packed {
        /// A gzip member (RFC 1952).
        gzip: &'static [u8],
        /// The SHA-256 of the component in hexadecimal, if known: otherwise every start computes it.
        digest: Option<&'static str>,
        /// The result of [`Plugin::record`](crate::Plugin::record) at its build. With it, listing its tools
        /// compiles nothing; the record of another component or of another version of haft is ignored.
        recorded: Option<&'static str>,
    },
    /// A file.
    File(PathBuf),
    /// A file whose component has this SHA-256 digest, in hexadecimal.
    Pinned(PathBuf, String),
}

/// SHA-256 of a component, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Digest(String);

/// A file's metadata, which differs when the file has changed. The change time is set by the kernel alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Source {
    /// Returns the file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Embedded(_) | Self::Packed { .. } => None,
            Self::File(path) | Self::Pinned(path, _) => Some(path),
        }
    }

    pub(crate) fn admits(&self, digest: &Digest) -> bool {
        match self {
            Self::Embedded(_) | Self::Packed { .. } | Self::File(_) => true,
            Self::Pinned(_, pinned) => digest.as_str() == pinned,
        }
    }

    /// Returns the component's digest; reads it, unless it is recorded.
    pub(crate) fn digest(&self) -> io::Result<Digest> {
        match self {
            Self::Packed { digest: Some(digest), .. } => Ok(Digest((*digest).to_owned())),
            _ => Ok(Digest::compute(&self.read()?)),
        }
    }

    /// Returns the component's bytes.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is not a regular file, or has more than 256 MiB.
    pub fn read(&self) -> io::Result<Cow<'static, [u8]>> {
        match self {
            Self::Embedded(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::Packed { gzip, .. } => read_to_end(GzDecoder::new(*gzip), MAX_COMPONENT).map(Cow::Owned),
            Self::File(path) | Self::Pinned(path, _) => read_bounded(path, MAX_COMPONENT).map(Cow::Owned),
        }
    }

    pub(crate) fn recorded(&self) -> Option<&'static str> {
        match self {
            Self::Packed { recorded, .. } => *recorded,
            Self::Embedded(_) | Self::File(_) | Self::Pinned(..) => None,
        }
    }

    /// Returns the uncompressed size in bytes, without reading a file; 0 if it is unknown.
    pub fn size(&self) -> u64 {
        match self {
            Self::Embedded(bytes) => bytes.len() as u64,
            // A gzip member ends with its uncompressed size.
            Self::Packed { gzip, .. } => {
                gzip.last_chunk().map_or(0, |size| u64::from(u32::from_le_bytes(*size)))
            }
            Self::File(path) | Self::Pinned(path, _) => {
                std::fs::metadata(path).map_or(0, |metadata| metadata.len())
            }
        }
    }

    /// Returns the documentation in the file `NAME.wit` beside the component, if it is readable. Ignored beside a
    /// pinned component: the file is not pinned, and models trust descriptions.
    pub(crate) fn sibling_wit(&self) -> Option<String> {
        let Self::File(path) = self else { return None };
        let path = path.with_extension("wit");
        let read = read_bounded(&path, MAX_SIBLING_WIT).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
        });
        let warn_unless_missing = |error: &io::Error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!("`{}` is not used: {error}", path.display());
            }
        };
        read.inspect_err(warn_unless_missing).ok()
    }

    /// Returns the state of the file; `None` without a file, or if it has just been changed.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        use std::os::unix::fs::MetadataExt;
        let path = self.path()?;
        let metadata = std::fs::metadata(path).ok()?;
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(metadata.ctime().try_into().ok()?);
        if changed.elapsed().ok()? < SETTLE_TIME {
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
    pub(crate) fn compute(bytes: &[u8]) -> Self {
        Self(hex(&Sha256::digest(bytes)))
    }

    pub(crate) fn from_hex(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the combined digest of a component and its documentation, which is the key of their cached listing.
    pub(crate) fn combined_with_docs(&self, docs: Option<&str>) -> Self {
        match docs {
            Some(docs) => {
                Self::compute(format!("{} {}", self.0, Self::compute(docs.as_bytes()).0).as_bytes())
            }
            None => self.clone(),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Opening a FIFO for reading would block until another process opens it for writing.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a file"));
    }
    read_to_end(file, most)
}

fn read_to_end(reader: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("larger than {} MiB", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}
