//! A directory that a right extends to: resolved once when the program is loaded, opened again
//! for every use, and never through a link that was not there when it was resolved.

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::platform;

/// A directory that a grant speaks of; among what it closes also a file. It need not exist yet.
///
/// Equality and order are those of the resolved path.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
    real: PathBuf,
}

impl Root {
    /// Resolves `path` against `base`, which must be absolute. Links are followed now, as far as
    /// the path exists; the rest is taken as written.
    pub fn resolve(base: &Path, path: &Path) -> io::Result<Self> {
        let path = normalise(&base.join(path));
        let real = real_path(&path)?;
        Ok(Self { path, real })
    }

    /// `/`: the whole file system.
    pub fn everything() -> Self {
        Self { path: "/".into(), real: "/".into() }
    }

    /// The absolute path as it was granted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The absolute path without links.
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// Whether `other` is this directory or lies below it.
    pub fn contains(&self, other: &Self) -> bool {
        other.real.starts_with(&self.real)
    }

    /// Opens the directory. Fails when any component of the resolved path is a link: it was made after the grant, and
    /// following it would move the grant.
    pub fn open(&self) -> io::Result<File> {
        platform::open_without_links(&self.real)
    }
}

impl PartialEq for Root {
    fn eq(&self, other: &Self) -> bool {
        self.real == other.real
    }
}

impl Eq for Root {}

/// Removes `.` and resolves `..` against the parts before it, as the shell's `cd` does.
pub fn normalise(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// The longest existing beginning of `path`, resolved, with the rest appended.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok(real_path(parent)?.join(name)),
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}
