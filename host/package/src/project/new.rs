//! Replaces a file atomically by one with the same owner, mode and attributes.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use tempfile::NamedTempFile;

use super::{ProjectError, failed, parent_of};
use haft_core::replace;

/// A new content for a file. Readers see the old or the new content. If the file cannot be replaced (it is a
/// mount point, has hard links, or its folder is not writable), it is written in place.
pub(super) struct New<'a> {
    /// `None` if the file has to be written in place.
    draft: Option<Draft>,
    path: &'a Path,
    text: &'a str,
}

/// The temporary file.
enum Draft {
    /// A file without a name, which no other process can open: tools may write the folder of program.toml, and
    /// could change a named file.
    Unnamed(File),
    /// A named file, for file systems without unnamed files.
    Named(NamedTempFile),
}

impl Draft {
    fn beside(path: &Path) -> io::Result<Self> {
        unnamed(parent_of(path)).map_or_else(|| named(path).map(Self::Named), |file| Ok(Self::Unnamed(file)))
    }

    fn file(&mut self) -> &mut File {
        match self {
            Self::Unnamed(file) => file,
            Self::Named(file) => file.as_file_mut(),
        }
    }

    /// Writes the content; returns `false` if the metadata of the file at `path` cannot be copied.
    fn fill(&mut self, path: &Path, text: &str) -> io::Result<bool> {
        let file = self.file();
        file.write_all(text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        let (folder, name) = (File::open(parent_of(path))?, name_of(path)?);
        let is_alike =
            replace::keep(&folder, name, file).is_ok() && !replace::has_other_names(&folder, name)?;
        file.sync_all()?;
        Ok(is_alike)
    }

    fn put(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Unnamed(file) => {
                let name = beside(path);
                // A killed haft may have left this file.
                let _ = fs::remove_file(&name);
                give_name(&file, &name)?;
                fs::rename(&name, path).inspect_err(|_| _ = fs::remove_file(&name))
            }
            Self::Named(file) => file.persist(path).map(drop).map_err(|error| error.error),
        }
    }
}

impl<'a> New<'a> {
    /// Writes the new content to a temporary file, if the file to replace is writable.
    pub(super) fn write(path: &'a Path, text: &'a str) -> Result<Self, ProjectError> {
        let draft = || -> io::Result<Option<Draft>> {
            let is_there = match File::options().write(true).open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                opened => opened.map(|_| true)?,
            };
            match Draft::beside(path) {
                Err(error) if !is_there => Err(error),
                Err(_) => Ok(None),
                Ok(mut draft) => Ok(draft.fill(path, text)?.then_some(draft)),
            }
        };
        Ok(Self { draft: draft().map_err(failed("write", path))?, path, text })
    }

    pub(super) fn put(self) -> Result<(), ProjectError> {
        let put = self.draft.is_some_and(|draft| draft.put(self.path).is_ok());
        if put {
            return Ok(());
        }
        replace::in_place(self.path, self.text.as_bytes()).map_err(failed("write", self.path))
    }
}

fn name_of(path: &Path) -> io::Result<&str> {
    path.file_name().and_then(OsStr::to_str).ok_or_else(|| io::ErrorKind::InvalidFilename.into())
}

/// Returns the temporary name of the file that replaces the one at `path`. It is constant, so that the next
/// change replaces the remains of a killed haft; the lock on the folder excludes other hafts.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".haft-");
    name.push(path.file_name().unwrap_or_default());
    parent_of(path).join(name)
}

/// Creates a file under that name, or under a random one if that fails.
fn named(path: &Path) -> io::Result<NamedTempFile> {
    let name = beside(path);
    let _ = fs::remove_file(&name);
    let name = name.file_name().unwrap_or_default();
    let new = |random| tempfile::Builder::new().prefix(name).rand_bytes(random).tempfile_in(parent_of(path));
    new(0).or_else(|_| new(6))
}

/// Restores the previous lock file: nobody agreed to a pin without its entry.
pub(super) fn take_back(place: &Path, before: Option<&[u8]>) {
    let put = match before {
        None => fs::remove_file(place).map_err(failed("remove", place)),
        Some(bytes) => New::write(place, &String::from_utf8_lossy(bytes)).and_then(New::put),
    };
    if let Err(error) = put {
        tracing::warn!("a pin without its entry is left: {error}");
    }
}

/// Opens an unnamed file in `folder`, if the file system supports it.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR).ok().map(File::from)
}

/// Links an unnamed file to the free path `name`.
#[cfg(target_os = "linux")]
fn give_name(file: &File, name: &Path) -> io::Result<()> {
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, descriptor, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// Returns `None`.
#[cfg(target_os = "macos")]
fn unnamed(_: &Path) -> Option<File> {
    None
}

/// Never called, since [`unnamed`] returns no file.
#[cfg(target_os = "macos")]
fn give_name(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Lock, lock_path};

    /// B27: after a failure neither the pin nor a temporary file is left, and the previous pins are restored.
    #[test]
    fn what_is_half_done_is_taken_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program.toml");
        let pinned = "version = 1\n[[pin]]\nname = \"a\"\nkind = \"plugin\"\nsource = \"https://a.test/0.wasm\"\n\
             digest = \"sha256:0000000000000000000000000000000000000000000000000000000000000000\"\n\
             contracts = []\nasked = []\ngranted = []\n";
        let other = directory.path().join("other.lock");
        fs::write(&other, pinned).unwrap();
        let lock = Lock::load(&other).unwrap().unwrap();
        // A folder in the place of program.toml cannot be replaced by a file.
        let full = directory.path().join("full");
        fs::create_dir_all(full.join("x")).unwrap();
        let new = New { draft: Some(Draft::beside(&full).unwrap()), path: &full, text: "" };
        new.put().unwrap_err();
        for before in [None, Some(lock.text())] {
            let place = lock_path(&path);
            match &before {
                Some(text) => fs::write(&place, text).unwrap(),
                None => _ = fs::remove_file(&place),
            }
            let kept = fs::read(&place).ok();
            New::write(&place, "changed").unwrap().put().unwrap();
            take_back(&place, kept.as_deref());
            assert_eq!(fs::read_to_string(&place).ok(), before);
        }
        let names: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().starts_with(".haft-")), "{names:?}");
    }
}
