//! Replaces the content of a file and keeps its metadata: owner, mode, access lists and other attributes. If that
//! is impossible (a file with hard links, a mounted file, a file of another user), the old file is overwritten in
//! place, with either all of the old content or all of the new.

mod new;
#[cfg_attr(target_os = "linux", path = "replace/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "replace/platform/macos.rs")]
mod platform;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fremovexattr,
    fsetxattr, fstat, openat, statat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

pub use self::new::{New, clear};

/// The permission bits, without set-user-ID, set-group-ID and sticky, which must not be passed on.
const PERMISSIONS: Mode = Mode::from_raw_mode(0o777);

/// Enough to read attributes; does not block and follows no symbolic link.
const READ: OFlags = OFlags::RDONLY
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

/// Whether the regular file `name` in `directory` has hard links, which a rename would separate from it.
///
/// # Errors
/// The file cannot be inspected; a missing file is no error.
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
    // The owner comes first: changing it clears mode bits. Only root may change owners.
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
/// The file cannot be written, in which case the old content is restored; or the path is a symbolic link or no
/// regular file.
pub fn in_place(path: &Path, content: &[u8]) -> io::Result<()> {
    // Tools may have replaced the file since it was checked.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let mut old = Vec::new();
    file.read_to_end(&mut old)?;
    overwrite(&mut file, content).inspect_err(|_| {
        // The old content takes no more room than before.
        let _ = overwrite(&mut file, &old);
    })
}

fn overwrite(file: &mut File, content: &[u8]) -> io::Result<()> {
    file.rewind()?;
    file.write_all(content)?;
    file.set_len(content.len() as u64)?;
    file.sync_all()
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
        fs::set_permissions(at("old"), fs::Permissions::from_mode(0o4640)).unwrap();
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
}
