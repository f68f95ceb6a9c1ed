//! Replaces the content of a file and keeps its metadata: owner, mode, access lists and other attributes. If that
//! is impossible (a file with hard links, a mounted file, a file of another user), the old file is overwritten in
//! place, with either all of the old content or all of the new.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fremovexattr,
    fsetxattr, fstat, openat, statat,
};
#[cfg(target_os = "linux")]
use rustix::fs::{CWD, linkat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use tempfile::NamedTempFile;

/// The permission bits, without set-user-ID, set-group-ID and sticky, which must not be passed on.
const PERMISSIONS: Mode = Mode::from_raw_mode(0o777);

/// Reads a regular file and its attributes, and nothing in its place: does not block and follows no symbolic link.
pub(crate) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The maximum size in bytes of an attribute, and of all names of attributes: the limit of the kernel.
const MAX_ATTRIBUTE: usize = 64 << 10;

/// Attributes that are valid for one content only.
const OF_CONTENT: &[&[u8]] = &[b"security.capability", b"security.ima", b"security.evm"];

/// Returns the status of a regular file in a directory.
fn file_at(directory: impl AsFd, name: &str) -> io::Result<Option<Stat>> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(is_file(&stat).then_some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether the regular file `name` in `directory` has hard links, which a rename would separate from it.
///
/// # Errors
/// The file cannot be inspected; a missing file is not an error.
pub fn has_other_names(directory: impl AsFd, name: &str) -> io::Result<bool> {
    Ok(file_at(directory, name)?.is_some_and(|stat| stat.st_nlink > 1))
}

/// Copies the owner, the mode and the attributes of the file `name` in `directory` to `new`, if both are regular
/// files.
///
/// # Errors
/// Some metadata cannot be copied; `new` may have a part of it by then.
pub fn keep(directory: impl AsFd, name: &str, new: &File) -> io::Result<()> {
    let Some(old) = file_at(&directory, name)? else { return Ok(()) };
    let now = fstat(new)?;
    if !is_file(&now) {
        return Ok(());
    }
    let attributes = match openat(&directory, name, READ, Mode::empty()) {
        Ok(file) => attributes(&File::from(file))?,
        // Attributes of an unreadable file cannot be read.
        Err(Errno::ACCESS) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    // The owner is first, because its change clears mode bits. Only root may change owners.
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid) {
        fchown(new, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)))?;
    }
    let present = self::attributes(new)?;
    for (name, _) in present.iter().filter(|(name, _)| !attributes.iter().any(|(kept, _)| kept == name)) {
        fremovexattr(new, &**name)?;
    }
    fchmod(new, Mode::from_raw_mode(old.st_mode) & PERMISSIONS)?;
    for (name, value) in attributes.iter().filter(|attribute| !present.contains(attribute)) {
        fsetxattr(new, &**name, value, XattrFlags::empty())?;
    }
    Ok(())
}

/// Returns the attributes of a file that are independent of its content; empty if the file system does not support
/// any.
fn attributes(file: &File) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut buffer = vec![0; MAX_ATTRIBUTE];
    let length = match flistxattr(file, &mut buffer[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let names: Vec<Vec<u8>> = buffer
        .get(..length)
        .unwrap_or_default()
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty() && !OF_CONTENT.contains(name))
        .map(<[u8]>::to_vec)
        .collect();
    let mut attributes = Vec::new();
    for name in names {
        let length = fgetxattr(file, &*name, &mut buffer[..])?;
        attributes.push((name, buffer.get(..length).unwrap_or_default().to_vec()));
    }
    Ok(attributes)
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Overwrites the existing file at `path` with `content` in place. Holds the old content in memory meanwhile.
///
/// # Errors
/// The file cannot be written, in which case the old content is restored; or the path is a symbolic link, or not a
/// regular file.
pub fn in_place(path: &Path, content: &[u8]) -> io::Result<()> {
    // Tools may have replaced the file since it was checked.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    overwrite_or_restore(
        &mut OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?,
        content,
    )
}

/// Overwrites an open regular file, or restores its old content if that fails.
pub(crate) fn overwrite_or_restore(file: &mut File, content: &[u8]) -> io::Result<()> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut old = Vec::new();
    file.read_to_end(&mut old)?;
    overwrite(file, content).inspect_err(|_| {
        // The old content needs at most the room that it had before.
        let _ = overwrite(file, &old);
    })
}

fn overwrite(file: &mut File, content: &[u8]) -> io::Result<()> {
    file.rewind()?;
    file.write_all(content)?;
    file.set_len(content.len() as u64)?;
    file.sync_all()
}

// Replaces a file atomically by a file with equal owner, mode and attributes, or creates a new one.

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
        unnamed(parent_of(path)).map_or_else(|| named(path).map(Self::Named), |file| Ok(Self::Unnamed(file)))
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
        // No other user may read the new content before the mode of the old file is known.
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
                give_name(&file, &name)?;
                fs::rename(&name, path).inspect_err(|_| _ = fs::remove_file(&name))
            }
            Self::Named(file) => file.persist(path).map(drop).map_err(|error| error.error),
        }
    }
}

impl<'a> New<'a> {
    /// Writes the new content to a temporary file, if the file to replace is writable. A file without a predecessor
    /// gets `mode`.
    ///
    /// # Errors
    /// The file to replace is not writable, or it is missing and its folder is not writable.
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

    /// Replaces the old content by the new one. The folder is not synchronised.
    ///
    /// # Errors
    /// The file can be neither replaced nor written in place; it then has its old content.
    pub fn put(self) -> io::Result<()> {
        let put = self.draft.is_some_and(|draft| draft.put(self.path).is_ok());
        if put { Ok(()) } else { in_place(self.path, self.content) }
    }
}

/// Removes temporary files of the file at `path` that a killed haft left.
pub fn clear(path: &Path) {
    // Usually the file is missing. The next change replaces a file that cannot be removed.
    let _ = fs::remove_file(beside(path));
}

/// Returns the folder of a file.
fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn name_of(path: &Path) -> io::Result<&str> {
    path.file_name().and_then(OsStr::to_str).ok_or_else(|| io::ErrorKind::InvalidFilename.into())
}

/// Returns the temporary name of the file that replaces the file at `path`. The name is constant, so that the next
/// change replaces the remains of a killed haft; the caller's lock excludes other processes of haft.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".haft-");
    name.push(path.file_name().unwrap_or_default());
    parent_of(path).join(name)
}

/// Creates a file with that name, or with a random one if that fails.
fn named(path: &Path) -> io::Result<NamedTempFile> {
    clear(path);
    let name = beside(path);
    let name = name.file_name().unwrap_or_default();
    let new = |random| tempfile::Builder::new().prefix(name).rand_bytes(random).tempfile_in(parent_of(path));
    new(0).or_else(|_| new(6))
}

/// Opens an unnamed file in `folder`, if the file system supports it.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR).ok().map(File::from)
}

/// Returns `None`: macOS has no unnamed files.
#[cfg(target_os = "macos")]
fn unnamed(_: &Path) -> Option<File> {
    None
}

/// Links an unnamed file to the free path `name`.
#[cfg(target_os = "linux")]
fn give_name(file: &File, name: &Path) -> io::Result<()> {
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, descriptor, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// Never called, because [`unnamed`] returns no file.
#[cfg(target_os = "macos")]
fn give_name(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn what_a_file_is_besides_its_content_is_handed_on() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let directory = File::open(place.path()).unwrap();
        fs::write(at("old"), "old").unwrap();
        fs::set_permissions(at("old"), Permissions::from_mode(0o4640)).unwrap();
        let old = File::open(at("old")).unwrap();
        let has_attributes = fsetxattr(&old, "user.origin", b"here", XattrFlags::empty()).is_ok();
        let new = File::create(at("new")).unwrap();
        if has_attributes {
            fsetxattr(&new, "user.other", b"there", XattrFlags::empty()).unwrap();
        }
        keep(&directory, "old", &new).unwrap();
        assert_eq!(new.metadata().unwrap().mode() & 0o7777, 0o640);
        assert_eq!(attributes(&new).unwrap(), attributes(&old).unwrap());
        assert_eq!(attributes(&new).unwrap().len(), usize::from(has_attributes));
        keep(&directory, "missing", &new).unwrap();
        fs::hard_link(at("old"), at("twin")).unwrap();
        let others = |name: &str| has_other_names(&directory, name).unwrap();
        assert_eq!((others("old"), others("new"), others("missing")), (true, false, false));
    }

    #[test]
    fn a_file_is_written_as_it_lies_there() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        fs::write(&path, "the old content").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        in_place(&path, b"new").unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap().as_str(), fs::metadata(&path).unwrap().ino()),
            ("new", inode)
        );
        in_place(&place.path().join("missing"), b"").unwrap_err();
        std::os::unix::fs::symlink(&path, place.path().join("link")).unwrap();
        in_place(&place.path().join("link"), b"elsewhere").unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    /// A folder cannot be replaced by a file; no part of the attempt remains.
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
