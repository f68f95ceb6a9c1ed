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

    /// The places of the links that the path as it was granted leads through now.
    pub fn links(&self) -> Vec<PathBuf> {
        links(&self.path)
    }

    /// Opens the directory. Fails when any component of the resolved path is a link: it was made after the grant, and
    /// following it would move the grant.
    pub fn open(&self) -> io::Result<File> {
        platform::open_without_links(&self.real)
    }
}

/// Links on one path, as many as the kernel follows.
const MAX_LINKS: usize = 40;

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

/// The places of the links that `path` leads through.
fn links(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut place = PathBuf::from("/");
    let mut parts: Vec<PathBuf> = parts(path).collect();
    while let Some(part) = parts.pop() {
        if part.as_os_str() == ".." {
            place.pop();
            continue;
        }
        let next = place.join(&part);
        match std::fs::read_link(&next) {
            Ok(target) if found.len() < MAX_LINKS => {
                if target.is_absolute() {
                    place = PathBuf::from("/");
                }
                parts.extend(self::parts(&target));
                found.push(next);
            }
            _ => place = next,
        }
    }
    found
}

/// The parts of a path, last first, without those that lead nowhere.
fn parts(path: &Path) -> impl Iterator<Item = PathBuf> {
    let named =
        path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    named.map(|part| PathBuf::from(part.as_os_str()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn circles_of_links_come_to_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        symlink("circle", folder.join("circle")).unwrap();
        assert_eq!(links(&folder.join("circle/file")).len(), MAX_LINKS);
        std::fs::create_dir(folder.join("real")).unwrap();
        symlink("real", folder.join("link")).unwrap();
        assert_eq!(links(&folder.join("link/file")), [folder.join("link")]);
    }
}
