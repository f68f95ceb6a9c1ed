//! Changes to directory entries: create, rename, link, remove. The directory is resolved and opened first, below
//! the guest's open directory. Then it is checked, and one name in this open directory is changed. `.` and `..` are
//! refused as names.

use std::fs::File;

use rustix::fs::{
    AtFlags, FileType, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, linkat, mkdirat, renameat, statat,
    symlinkat, unlinkat,
};
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::p2::bindings::filesystem::types::{ErrorCode, NewTimestamp};
use wasmtime_wasi::p2::{FsError, FsResult};

use crate::denials::denied_access::AccessKind;
use crate::wasi::files::resolve::{self, Bounds, Links, enter};
use crate::wasi::files::view::Files;

/// The mode of a new directory, before the user's umask.
const NEW_DIRECTORY: Mode = Mode::from_raw_mode(0o777);

pub(super) struct Entry {
    pub(super) directory: File,
    pub(super) name: String,
    /// Whether a slash followed the name.
    pub(super) must_be_directory: bool,
}

impl Entry {
    fn kind(&self) -> FsResult<FileType> {
        let stat = statat(&self.directory, &*self.name, AtFlags::SYMLINK_NOFOLLOW);
        Ok(FileType::from_raw_mode(stat.map_err(errno)?.st_mode))
    }

    /// Refuses a non-directory that was named with a slash at its end.
    fn check_kind(&self) -> FsResult<()> {
        let wrong = self.must_be_directory && self.kind()? != FileType::Directory;
        if wrong { Err(ErrorCode::NotDirectory.into()) } else { Ok(()) }
    }
}

impl Files<'_> {
    /// Returns the entry that `path` below `directory` names, if it may be made, replaced, moved or removed.
    pub(super) fn entry(&mut self, directory: &Dir, path: &str) -> FsResult<Entry> {
        if directory.perms.write_not_permitted() {
            return Err(ErrorCode::NotPermitted.into());
        }
        let (parent, name) = split(path)?;
        let found = match enter(directory, parent) {
            Ok(found) => found,
            Err(error) => return Err(self.missing_path_error(directory, path, Bounds::Beneath, error)),
        };
        if let Some(protection) =
            self.protected_paths.protection_of_entry(&found, name).map_err(resolve::error)?
        {
            let place = resolve::real_path(&found);
            // Below a protected directory the name does not matter, and may be that of a temporary file.
            let place = if protection.itself { place.map(|place| place.join(name)) } else { place };
            return Err(self.refuse(protection.level, place, AccessKind::Write));
        }
        if let Some(changes) = self.changes() {
            changes.before(&found, name, || resolve::real_path(&found));
        }
        Ok(Entry { directory: found, name: name.to_owned(), must_be_directory: path.ends_with('/') })
    }

    pub(super) fn make_directory(&mut self, directory: &Dir, path: &str) -> FsResult<()> {
        let entry = self.entry(directory, path)?;
        self.disk.charge_entry(|| mkdirat(&entry.directory, &*entry.name, NEW_DIRECTORY)).map_err(errno)
    }

    pub(super) fn remove_file(&mut self, directory: &Dir, path: &str) -> FsResult<()> {
        let entry = self.entry(directory, path)?;
        entry.check_kind()?;
        unlinkat(&entry.directory, &*entry.name, AtFlags::empty()).map_err(errno)
    }

    pub(super) fn remove_directory(&mut self, directory: &Dir, path: &str) -> FsResult<()> {
        let entry = self.entry(directory, path)?;
        unlinkat(&entry.directory, &*entry.name, AtFlags::REMOVEDIR).map_err(errno)
    }

    pub(super) fn rename(&mut self, from: (&Dir, &str), to: (&Dir, &str)) -> FsResult<()> {
        let (old, new) = self.both(from, to)?;
        old.check_kind()?;
        if old.kind().is_ok_and(|kind| kind == FileType::Directory)
            && let Some(changes) = self.changes()
        {
            changes.moves_folder(resolve::real_path(&old.directory).map(|place| place.join(&old.name)));
        }
        resolve::keep((&old.directory, &old.name), (&new.directory, &new.name))?;
        renameat(&old.directory, &*old.name, &new.directory, &*new.name).map_err(errno)
    }

    pub(super) fn link(&mut self, from: (&Dir, &str), to: (&Dir, &str)) -> FsResult<()> {
        let (old, new) = self.both(from, to)?;
        if old.must_be_directory || new.must_be_directory {
            return Err(ErrorCode::NotDirectory.into());
        }
        let (from, to) = (&old.directory, &new.directory);
        self.disk.charge_entry(|| linkat(from, &*old.name, to, &*new.name, AtFlags::empty())).map_err(errno)
    }

    pub(super) fn symlink(&mut self, directory: &Dir, target: &str, path: &str) -> FsResult<()> {
        let entry = self.entry(directory, path)?;
        // An absolute link is useless to a guest, and misleads other programs that follow it.
        if target.starts_with('/') {
            return Err(ErrorCode::NotPermitted.into());
        }
        if entry.must_be_directory {
            return Err(ErrorCode::NoEntry.into());
        }
        self.disk.charge_entry(|| symlinkat(target, &entry.directory, &*entry.name)).map_err(errno)
    }

    /// Prepares two entries; if either may not be changed, refuses before touching the other.
    fn both(&mut self, (from, old): (&Dir, &str), (to, new): (&Dir, &str)) -> FsResult<(Entry, Entry)> {
        if to.perms.write_not_permitted() {
            return Err(ErrorCode::NotPermitted.into());
        }
        Ok((self.entry(from, old)?, self.entry(to, new)?))
    }

    pub(super) fn set_times_at_path(
        &mut self,
        directory: &Dir,
        path: &str,
        links: Links,
        times: &Timestamps,
    ) -> FsResult<()> {
        if directory.perms.write_not_permitted() {
            return Err(ErrorCode::NotPermitted.into());
        }
        let (object, protection) = self.resolve_and_check(directory, path, links, Bounds::Beneath)?;
        if let Some(protection) = protection {
            return Err(self.refuse(protection.level, resolve::real_path(&object.file), AccessKind::Write));
        }
        resolve::set_times(&object.file, times).map_err(errno)
    }
}

pub(super) fn timestamps(accessed: NewTimestamp, modified: NewTimestamp) -> Result<Timestamps, ErrorCode> {
    Ok(Timestamps { last_access: timespec(accessed)?, last_modification: timespec(modified)? })
}

fn timespec(time: NewTimestamp) -> Result<Timespec, ErrorCode> {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        NewTimestamp::NoChange => Ok(special(UTIME_OMIT)),
        NewTimestamp::Now => Ok(special(UTIME_NOW)),
        NewTimestamp::Timestamp(time) => {
            let (more, rest) = (time.nanoseconds / 1_000_000_000, time.nanoseconds % 1_000_000_000);
            let seconds = time.seconds.checked_add(more.into()).and_then(|all| i64::try_from(all).ok());
            Ok(Timespec { tv_sec: seconds.ok_or(ErrorCode::Overflow)?, tv_nsec: rest.into() })
        }
    }
}

fn split(path: &str) -> Result<(&str, &str), ErrorCode> {
    let whole = path.trim_end_matches('/');
    let (parent, name) = match whole.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((parent, name)) => (parent, name),
        None => (".", whole),
    };
    match name {
        "" if path.is_empty() => Err(ErrorCode::NoEntry),
        "" | "." | ".." => Err(ErrorCode::Invalid),
        name => Ok((parent, name)),
    }
}

fn errno(errno: rustix::io::Errno) -> FsError {
    match errno {
        // Programs copy the file then.
        rustix::io::Errno::XDEV => ErrorCode::CrossDevice.into(),
        errno => resolve::error(errno.into()),
    }
}
