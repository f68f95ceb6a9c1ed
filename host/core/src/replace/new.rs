//! Replaces a file atomically by one with the same owner, mode and attributes, or makes a new one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{has_other_names, in_place, keep, platform};

/// A new content for a file. Readers see the old or the new content. If the file cannot be replaced (it is a
/// mount point, has hard links, or its folder is not writable), it is written in place.
#[derive(Debug)]
pub struct New<'a> {
    /// `None` if the file has to be written in place.
    draft: Option<Draft>,
    path: &'a Path,
    content: &'a [u8],
}

/// The temporary file.
#[derive(Debug)]
enum Draft {
    /// A file without a name, which no other process can open: tools may write the folder of program.toml, and
    /// could change a named file.
    Unnamed(File),
    /// A named file, for file systems without unnamed files.
    Named(NamedTempFile),
}

impl Draft {
    fn beside(path: &Path) -> io::Result<Self> {
        platform::unnamed(parent_of(path))
            .map_or_else(|| named(path).map(Self::Named), |file| Ok(Self::Unnamed(file)))
    }

    fn file(&mut self) -> &mut File {
        match self {
            Self::Unnamed(file) => file,
            Self::Named(file) => file.as_file_mut(),
        }
    }

    /// Writes the content; returns `false` if the metadata of the file at `path` cannot be copied. A new file gets
    /// `mode`.
    fn fill(&mut self, path: &Path, content: &[u8], mode: Option<u32>) -> io::Result<bool> {
        let file = self.file();
        file.write_all(content)?;
        // Nobody else may read the new content before the mode of the old file is known.
        file.set_permissions(Permissions::from_mode(mode.unwrap_or(0o600)))?;
        let (folder, name) = (File::open(parent_of(path))?, name_of(path)?);
        let is_alike = keep(&folder, name, file).is_ok() && !has_other_names(&folder, name)?;
        file.sync_all()?;
        Ok(is_alike)
    }

    fn put(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Unnamed(file) => {
                let name = beside(path);
                clear(path);
                platform::give_name(&file, &name)?;
                fs::rename(&name, path).inspect_err(|_| _ = fs::remove_file(&name))
            }
            Self::Named(file) => file.persist(path).map(drop).map_err(|error| error.error),
        }
    }
}

impl<'a> New<'a> {
    /// Writes the new content to a temporary file, if the file to replace is writable. Where there is no file yet, the
    /// new one gets `mode`.
    ///
    /// # Errors
    /// The file to replace is not writable, or there is none and its folder is not.
    pub fn write(path: &'a Path, content: &'a [u8], mode: u32) -> io::Result<Self> {
        let is_there = match File::options().write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            opened => opened.map(|_| true)?,
        };
        let draft = match Draft::beside(path) {
            Err(error) if !is_there => return Err(error),
            Err(_) => None,
            Ok(mut draft) => draft.fill(path, content, (!is_there).then_some(mode))?.then_some(draft),
        };
        Ok(Self { draft, path, content })
    }

    /// Puts the new content in the place of the old one. The folder is not synchronised.
    ///
    /// # Errors
    /// The file can be neither replaced nor written in place; it has its old content then.
    pub fn put(self) -> io::Result<()> {
        let put = self.draft.is_some_and(|draft| draft.put(self.path).is_ok());
        if put { Ok(()) } else { in_place(self.path, self.content) }
    }
}

/// Removes what a killed haft left beside the file at `path` of a content that it had not put there yet.
pub fn clear(path: &Path) {
    // Mostly there is nothing, and what cannot be removed is replaced by the next change.
    let _ = fs::remove_file(beside(path));
}

/// Returns the folder of a file.
fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn name_of(path: &Path) -> io::Result<&str> {
    path.file_name().and_then(OsStr::to_str).ok_or_else(|| io::ErrorKind::InvalidFilename.into())
}

/// Returns the temporary name of the file that replaces the one at `path`. It is constant, so that the next
/// change replaces the remains of a killed haft; the caller's lock excludes other hafts.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".haft-");
    name.push(path.file_name().unwrap_or_default());
    parent_of(path).join(name)
}

/// Creates a file under that name, or under a random one if that fails.
fn named(path: &Path) -> io::Result<NamedTempFile> {
    clear(path);
    let name = beside(path);
    let name = name.file_name().unwrap_or_default();
    let new = |random| tempfile::Builder::new().prefix(name).rand_bytes(random).tempfile_in(parent_of(path));
    new(0).or_else(|_| new(6))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder in the place of the file cannot be replaced by a file; nothing is left of the attempt.
    #[test]
    fn a_failure_leaves_no_temporary_file() {
        let place = tempfile::tempdir().unwrap();
        let full = place.path().join("full");
        fs::create_dir_all(full.join("x")).unwrap();
        let new = New { draft: Some(Draft::beside(&full).unwrap()), path: &full, content: b"" };
        new.put().unwrap_err();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_file_has_the_mode_and_an_old_one_keeps_its_own() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        New::write(&path, b"new", 0o640).unwrap().put().unwrap();
        assert_eq!(mode(), 0o640);
        fs::set_permissions(&path, Permissions::from_mode(0o604)).unwrap();
        New::write(&path, b"newer", 0o640).unwrap().put().unwrap();
        assert_eq!((mode(), fs::read(&path).unwrap().as_slice()), (0o604, &b"newer"[..]));
    }
}
