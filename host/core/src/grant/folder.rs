//! An open directory and the files below it: the kernel resolves paths, and no symbolic link leads outside. No path
//! is checked as text here.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;

use cap_std::fs::{Dir, DirEntry, File, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;

use super::Root;

/// The flags of every open: a FIFO does not block, and a terminal does not become the controlling terminal.
const NO_WAIT: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

/// An open directory.
#[derive(Debug)]
pub struct Folder(Dir);

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The bytes, up to the limit.
    pub bytes: Vec<u8>,
    /// The size of the file in bytes.
    pub size: u64,
    /// Whether the file's owner may execute it.
    pub executable: bool,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// The name.
    pub name: OsString,
    /// The kind; a symbolic link is not followed.
    pub kind: Kind,
}

/// See [`Listed::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Folder,
    /// A symbolic link, or another kind.
    Other,
}

impl Root {
    /// Opens the directory to read files below it. Fails as [`Root::open`] does.
    pub fn folder(&self) -> io::Result<Folder> {
        self.open().map(|directory| Folder(Dir::from_std_file(directory)))
    }
}

impl Folder {
    /// Opens the directory `path` below this one; this one if `path` is empty.
    pub fn enter(&self, path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        self.0.open_dir(path).map(Self).map_err(leads_out)
    }

    /// Returns whether both are one directory, regardless of their paths.
    pub fn is_same(&self, other: &Self) -> io::Result<bool> {
        let [this, other] = [self.0.dir_metadata()?, other.0.dir_metadata()?];
        Ok((this.dev(), this.ino()) == (other.dev(), other.ino()))
    }

    /// Reads at most `most` bytes of the regular file `path` below this directory. Follows symbolic links that stay
    /// below it; refuses other kinds of files without waiting for them.
    pub fn read(&self, path: &Path, most: u64) -> io::Result<Content> {
        let file = self.open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        let size = metadata.len().max(bytes.len() as u64);
        let executable = metadata.mode() & 0o100 != 0;
        Ok(Content { bytes, size, executable })
    }

    /// Returns the entries of the directory, sorted by name, of the first `most` entries that the kernel lists.
    pub fn list(&self, most: usize) -> io::Result<Vec<Listed>> {
        let entry = |entry: io::Result<DirEntry>| {
            let entry = entry?;
            let kind = match entry.file_type()? {
                kind if kind.is_file() => Kind::File,
                kind if kind.is_dir() => Kind::Folder,
                _ => Kind::Other,
            };
            Ok(Listed { name: entry.file_name(), kind })
        };
        let mut entries = self.0.entries()?.take(most).map(entry).collect::<io::Result<Vec<_>>>()?;
        entries.sort_unstable();
        Ok(entries)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        let flags = i32::try_from(NO_WAIT.bits()).map_err(io::Error::other)?;
        self.0.open_with(path, OpenOptions::new().read(true).custom_flags(flags)).map_err(leads_out)
    }
}

/// Explains an error that is not from the kernel: the path, or a symbolic link in it, leads outside.
fn leads_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            io::Error::new(io::ErrorKind::PermissionDenied, "it points outside the folder")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn place() -> (tempfile::TempDir, Folder) {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        fs::create_dir_all(place.join("in/sub")).unwrap();
        fs::write(place.join("in/sub/a.txt"), "inside").unwrap();
        fs::write(place.join("out.txt"), "outside").unwrap();
        for (link, to) in [("in/good", "sub/a.txt"), ("in/bad", "../out.txt"), ("in/whole", "/etc/passwd")] {
            symlink(to, place.join(link)).unwrap();
        }
        symlink("..", place.join("in/up")).unwrap();
        let folder = Root::resolve(&place, Path::new("in")).unwrap().folder().unwrap();
        (directory, folder)
    }

    const INSIDE: [&str; 4] = ["sub/a.txt", "./sub/a.txt", "sub/../sub/a.txt", "good"];
    const OUTSIDE: [&str; 6] =
        ["../out.txt", "bad", "whole", "/etc/passwd", "up/out.txt", "sub/../../out.txt"];

    #[test]
    fn what_lies_below_is_read_and_nothing_else() {
        let (_place, folder) = place();
        let read = |path: &str| folder.read(Path::new(path), 100);
        for path in INSIDE {
            assert_eq!(
                read(path).unwrap(),
                Content { bytes: b"inside".into(), size: 6, executable: false },
                "{path}"
            );
        }
        for path in OUTSIDE {
            let error = read(path).unwrap_err().to_string();
            assert_eq!(error, "it points outside the folder", "{path}");
        }
        assert_eq!(
            folder.read(Path::new("good"), 2).unwrap(),
            Content { bytes: b"in".into(), size: 6, executable: false }
        );
        assert_eq!(read("sub").unwrap_err().to_string(), "it is not a regular file");
        assert_eq!(read("none").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(folder.enter(Path::new("up")).is_err() && folder.enter(Path::new("sub")).is_ok());
    }

    #[test]
    fn a_pipe_is_not_waited_for_and_entries_are_in_order() {
        let (place, folder) = place();
        let pipe = place.path().join("in/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        assert!(folder.read(Path::new("pipe"), 9).is_err());
        let listed = folder.list(100).unwrap();
        let names: Vec<_> = listed.iter().map(|own| own.name.to_str().unwrap()).collect();
        assert_eq!(names, ["bad", "good", "pipe", "sub", "up", "whole"]);
        assert_eq!((listed[3].kind, listed[1].kind), (Kind::Folder, Kind::Other));
        assert_eq!(folder.list(2).unwrap().len(), 2);
    }
}
