//! The files of a package's tree, each with its digest. The digest of the listing's text identifies the
//! complete tree, so that one file can be checked without reading the others. Follows no link.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

use super::inventory::{Inventory, Unfit};
use super::{Digest, MAX_SIZE};

/// The first line of the text; another format would be another tree.
const HEAD: &str = "haft-tree-1";

/// Limit on the bytes of a listing: the maximum number of entries, each with the maximum path length.
const MAX_LISTING: u64 = 16 << 20;

/// The files of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    files: BTreeMap<String, Listed>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The digest of the content.
    pub digest: Digest,
    /// Whether the file is executable.
    pub executable: bool,
}

/// Reasons why a tree is invalid.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A file cannot be read.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// The tree has an entry that no package may contain.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The listing is damaged, or belongs to another tree.
    #[error("the list of its files was changed or is damaged")]
    Listing,
    /// A file differs from the listing.
    #[error("`{0}` was changed")]
    Changed(String),
    /// A file of the listing is missing.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A file is not in the listing.
    #[error("`{0}` was added")]
    Added(String),
}

pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TreeError {
    let path = path.to_owned();
    move |source| TreeError::Io { action, path, source }
}

impl Listing {
    /// Lists the tree at `root`; returns also the bytes of its files. Refuses links and everything else that is
    /// neither a file nor a folder.
    pub(crate) fn from_folder(root: &Path) -> Result<(Self, u64), TreeError> {
        let (mut inventory, mut files) = (Inventory::default(), BTreeMap::new());
        walk((root, ""), &mut inventory, &|_, _, _| false, &mut |full, path, metadata| {
            let (digest, _) = Digest::of_file(full, MAX_SIZE).map_err(io_error("read", full))?;
            files.insert(path, Listed { digest, executable: metadata.permissions().mode() & 0o100 != 0 });
            Ok(())
        })?;
        Ok((Self { files }, inventory.size()))
    }

    /// Returns the text whose digest identifies the tree.
    pub fn text(&self) -> String {
        let line = |(path, file): (&String, &Listed)| {
            let mode = if file.executable { 'x' } else { '-' };
            format!("{mode} {} {path}\n", file.digest.hex())
        };
        std::iter::once(format!("{HEAD}\n")).chain(self.files.iter().map(line)).collect()
    }

    /// Returns the digest of the complete tree.
    pub fn digest(&self) -> Digest {
        Digest::hash(self.text().as_bytes())
    }

    /// Reads the listing at `path`, which must have the digest `digest`.
    pub fn read(path: &Path, digest: &Digest) -> Result<Self, TreeError> {
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(MAX_LISTING).read_to_end(&mut text));
        read.map_err(io_error("read", path))?;
        if Digest::hash(&text) != *digest {
            return Err(TreeError::Listing);
        }
        let text = std::str::from_utf8(&text).map_err(|_| TreeError::Listing)?;
        Self::parse(text).ok_or(TreeError::Listing)
    }

    fn parse(text: &str) -> Option<Self> {
        let lines = text.strip_prefix(HEAD)?.strip_prefix('\n')?.lines();
        let file = |line: &str| {
            let (mode, rest) = line.split_once(' ')?;
            let (digest, path) = rest.split_once(' ')?;
            let listed = Listed { digest: digest.parse().ok()?, executable: mode == "x" };
            Some((path.to_owned(), listed))
        };
        Some(Self { files: lines.map(file).collect::<Option<_>>()? })
    }

    /// Returns a file by its path within the tree.
    pub fn file(&self, path: &str) -> Option<&Listed> {
        self.files.get(path)
    }

    /// Returns the paths of all files, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Reads one file of the tree at `root`, at most `most` bytes, and checks it against its listed digest.
    pub fn bytes(&self, root: &Path, path: &str, most: u64) -> Result<Vec<u8>, TreeError> {
        let listed = self.file(path).ok_or_else(|| TreeError::Missing(path.to_owned()))?;
        let full = root.join(path);
        let mut bytes = Vec::new();
        let file = open(&full).map_err(|error| missing(error, path, &full))?;
        file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(io_error("read", &full))?;
        if bytes.len() as u64 > most || Digest::hash(&bytes) != listed.digest {
            return Err(TreeError::Changed(path.to_owned()));
        }
        Ok(bytes)
    }

    /// Reads the tree at `root` in full and checks that it is exactly the listed one.
    pub fn check(&self, root: &Path) -> Result<(), TreeError> {
        let (found, _) = Self::from_folder(root)?;
        for (path, listed) in &self.files {
            match found.files.get(path) {
                None => return Err(TreeError::Missing(path.clone())),
                Some(other) if other != listed => return Err(TreeError::Changed(path.clone())),
                Some(_) => {}
            }
        }
        match found.files.keys().find(|path| !self.files.contains_key(*path)) {
            Some(path) => Err(TreeError::Added(path.clone())),
            None => Ok(()),
        }
    }
}

fn missing(error: io::Error, path: &str, full: &Path) -> TreeError {
    match error.kind() {
        io::ErrorKind::NotFound => TreeError::Missing(path.to_owned()),
        _ => io_error("open", full)(error),
    }
}

/// Reads a text file of at most `most` bytes.
pub(super) fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
}

/// Opens a file that is not a link; does not block on a named pipe.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)
}

/// Walks the files below `folder`, which is `inside` in its package, but for the entries that `is_skipped` selects by
/// their names, kinds and folders. Refuses entries that no package may have.
pub(super) fn walk(
    (folder, inside): (&Path, &str),
    inventory: &mut Inventory,
    is_skipped: &dyn Fn(&str, bool, &str) -> bool,
    each: &mut dyn FnMut(&Path, String, &Metadata) -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    for entry in fs::read_dir(folder).map_err(io_error("list", folder))? {
        let entry = entry.map_err(io_error("list", folder))?;
        let full = entry.path();
        let kind = entry.file_type().map_err(io_error("look at", &full))?;
        if is_skipped(&entry.file_name().to_string_lossy(), kind.is_dir(), inside) {
            continue;
        }
        let path = joined(inside, &entry.file_name())?;
        if kind.is_dir() {
            inventory.folder(&path)?;
            walk((full.as_path(), path.as_str()), inventory, is_skipped, each)?;
        } else {
            refuse_special(kind, &path)?;
            let metadata = entry.metadata().map_err(io_error("look at", &full))?;
            inventory.file(&path, metadata.len())?;
            each(&full, path, &metadata)?;
        }
    }
    Ok(())
}

pub(super) fn joined(inside: &str, name: &std::ffi::OsStr) -> Result<String, Unfit> {
    let name = name.to_str().ok_or_else(|| Unfit::Encoding(name.to_string_lossy().into_owned()))?;
    Ok(listed(inside, name))
}

/// Returns a relative path as a package lists it, without `.`; `None` for a path to the outside.
pub(super) fn relative(path: &Path) -> Option<String> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    let names = parts.map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    names.collect::<Option<Vec<&str>>>().map(|names| names.join("/"))
}

/// Returns `path`, which starts at the folder `folder` of a package, as the package lists it.
pub(super) fn listed(folder: &str, path: &str) -> String {
    if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
}

pub(super) fn refuse_special(kind: fs::FileType, path: &str) -> Result<(), Unfit> {
    use std::os::unix::fs::FileTypeExt;
    let kind = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(Unfit::Kind { path: haft_core::report::plain(path), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("bin")).unwrap();
        fs::write(directory.path().join("program.toml"), "x").unwrap();
        fs::write(directory.path().join("bin/run"), "y").unwrap();
        directory
    }

    type Act = fn(&Path);

    #[test]
    fn a_listing_tells_every_change() {
        let directory = tree();
        let root = directory.path();
        let (listing, size) = Listing::from_folder(root).unwrap();
        assert_eq!((size, listing.paths().collect::<Vec<_>>()), (2, vec!["bin/run", "program.toml"]));
        assert!(listing.check(root).is_ok());
        let changes: [(&str, Act, Act); 4] = [
            (
                "`bin/run` was changed",
                |p| fs::write(p.join("bin/run"), "z").unwrap(),
                |p| {
                    fs::write(p.join("bin/run"), "y").unwrap();
                },
            ),
            (
                "`bin/run` was changed",
                |p| fs::set_permissions(p.join("bin/run"), fs::Permissions::from_mode(0o755)).unwrap(),
                |p| fs::set_permissions(p.join("bin/run"), fs::Permissions::from_mode(0o644)).unwrap(),
            ),
            (
                "`new` was added",
                |p| fs::write(p.join("new"), "").unwrap(),
                |p| {
                    fs::remove_file(p.join("new")).unwrap();
                },
            ),
            (
                "`program.toml` is missing",
                |p| fs::remove_file(p.join("program.toml")).unwrap(),
                |p| {
                    fs::write(p.join("program.toml"), "x").unwrap();
                },
            ),
        ];
        for (message, change, back) in changes {
            change(root);
            assert_eq!(listing.check(root).unwrap_err().to_string(), message);
            back(root);
            assert!(listing.check(root).is_ok());
        }
    }

    #[test]
    fn a_listing_is_read_back_and_belongs_to_one_digest() {
        let directory = tree();
        let (listing, _) = Listing::from_folder(directory.path()).unwrap();
        let file = directory.path().join("files");
        fs::write(&file, listing.text()).unwrap();
        assert_eq!(Listing::read(&file, &listing.digest()).unwrap(), listing);
        fs::write(&file, listing.text().replace("- ", "x ")).unwrap();
        assert!(matches!(Listing::read(&file, &listing.digest()), Err(TreeError::Listing)));
        assert_eq!(listing.bytes(directory.path(), "program.toml", 9).unwrap(), b"x");
        assert!(matches!(listing.bytes(directory.path(), "files", 9), Err(TreeError::Missing(_))));
        fs::write(directory.path().join("program.toml"), "w").unwrap();
        assert!(matches!(listing.bytes(directory.path(), "program.toml", 9), Err(TreeError::Changed(_))));
    }

    /// PR08: links and named pipes are refused, regardless of the links' targets.
    #[test]
    fn links_and_pipes_are_refused() {
        let directory = tree();
        let root = directory.path();
        std::os::unix::fs::symlink("program.toml", root.join("link")).unwrap();
        assert!(Listing::from_folder(root).unwrap_err().to_string().contains("a symbolic link"));
        fs::remove_file(root.join("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(Listing::from_folder(root).unwrap_err().to_string().contains("a named pipe"));
    }
}
