//! An open directory, and what lies below it: the kernel opens it, and no link leads out. No path is judged as text
//! here.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use super::Root;

/// How often a path is resolved again when another process changes it meanwhile.
const MAX_LOOKUPS: usize = 16;

/// An open directory.
#[derive(Debug)]
pub struct Folder(File);

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its bytes, up to the bound.
    pub bytes: Vec<u8>,
    /// How many it has in all.
    pub size: u64,
}

/// What a directory has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its name.
    pub name: OsString,
    /// What it is; a link is one whatever it leads to.
    pub kind: Kind,
}

/// See [`Listed::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Folder,
    /// A link, or something else.
    Other,
}

impl Root {
    /// Opens the directory to read what lies below it. Fails as [`Root::open`] does.
    pub fn folder(&self) -> io::Result<Folder> {
        self.open().map(Folder)
    }
}

impl Folder {
    /// The directory `path` below this one; itself where `path` is empty.
    pub fn enter(&self, path: &Path) -> io::Result<Self> {
        self.open(path, OFlags::DIRECTORY).map(Self)
    }

    /// Whether it is the same directory as `other`, however each was reached.
    pub fn is_same(&self, other: &Self) -> io::Result<bool> {
        let [own, other] = [self.0.metadata()?, other.0.metadata()?];
        Ok((own.dev(), own.ino()) == (other.dev(), other.ino()))
    }

    /// At most `most` bytes of the regular file `path` below this directory. A link is followed as long as it leads to
    /// something below; what is no regular file is refused without waiting for it.
    pub fn read(&self, path: &Path, most: u64) -> io::Result<Content> {
        let file = self.open(path, OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        let size = metadata.len().max(bytes.len() as u64);
        Ok(Content { bytes, size })
    }

    /// What is in the directory, by name, of the first `most` entries that the kernel tells.
    pub fn list(&self, most: usize) -> io::Result<Vec<Listed>> {
        let entry = |entry: rustix::io::Result<rustix::fs::DirEntry>| {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            let kind = match entry.file_type() {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                _ => Kind::Other,
            };
            Ok(Listed { name, kind })
        };
        let is_own =
            |listed: &io::Result<Listed>| !matches!(listed, Ok(own) if own.name == "." || own.name == "..");
        let entries = Dir::read_from(&self.0)?.map(entry).filter(is_own).take(most);
        let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
        entries.sort_unstable();
        Ok(entries)
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..MAX_LOOKUPS {
            return match openat2(&self.0, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => continue,
                Err(Errno::XDEV) => Err(leads_out()),
                // Not there, or kept away by the sandbox that haft itself runs in.
                Err(Errno::NOSYS | Errno::PERM) => self.open_by_parts(path, flags).map(File::from),
                opened => Ok(opened?.into()),
            };
        }
        Err(Errno::BUSY.into())
    }

    /// The same part by part, none of which may be a link: where one leads to cannot be held to the directory then.
    fn open_by_parts(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut directory = openat(&self.0, ".", step, Mode::empty())?;
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            let name = match part {
                Component::Normal(name) => name,
                Component::CurDir => ".".as_ref(),
                _ => return Err(leads_out()),
            };
            if parts.peek().is_none() {
                return Ok(openat(&directory, name, flags | OFlags::NOFOLLOW, Mode::empty())?);
            }
            directory = openat(&directory, name, step, Mode::empty())?;
        }
        Ok(openat(&directory, ".", flags, Mode::empty())?)
    }
}

fn leads_out() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "it leads out of the folder")
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
            assert_eq!(read(path).unwrap(), Content { bytes: b"inside".into(), size: 6 }, "{path}");
        }
        for path in OUTSIDE {
            let error = read(path).unwrap_err().to_string();
            assert_eq!(error, "it leads out of the folder", "{path}");
        }
        assert_eq!(folder.read(Path::new("good"), 2).unwrap(), Content { bytes: b"in".into(), size: 6 });
        assert_eq!(read("sub").unwrap_err().to_string(), "it is no regular file");
        assert_eq!(read("none").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(folder.enter(Path::new("up")).is_err() && folder.enter(Path::new("sub")).is_ok());
    }

    #[test]
    fn by_parts_no_link_is_followed_and_nothing_leads_out() {
        let (_place, folder) = place();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = |path: &str| folder.open_by_parts(Path::new(path), flags).is_ok();
        assert!(opened("sub/a.txt") && opened("./sub/a.txt") && opened("."));
        for path in OUTSIDE.into_iter().chain(["good", "sub/../sub/a.txt"]) {
            assert!(!opened(path), "{path}");
        }
    }

    #[test]
    fn a_pipe_is_not_waited_for_and_entries_are_in_order() {
        let (place, folder) = place();
        let pipe = place.path().join("in/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(folder.read(Path::new("pipe"), 9).is_err());
        let listed = folder.list(100).unwrap();
        let names: Vec<_> = listed.iter().map(|own| own.name.to_str().unwrap()).collect();
        assert_eq!(names, ["bad", "good", "pipe", "sub", "up", "whole"]);
        assert_eq!((listed[3].kind, listed[1].kind), (Kind::Folder, Kind::Other));
        assert_eq!(folder.list(2).unwrap().len(), 2);
    }
}
