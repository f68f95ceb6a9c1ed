//! Paths that stay protected from every guest and every grant: haft's own directories and keys are neither read nor
//! written, the program in use is not written. Checks the opened object: its identity, that of every directory
//! above it, and the path that the kernel has for it; never the path that a guest passed.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};

use crate::denials::denied_access::Protection;
use crate::wasi::files::resolve::{HANDLE, Object, identity, real_path};
use haft_core::grant::{Grant, Root};
use haft_core::sync::Lock;

/// Maximum number of cached sets of protected paths: the plugins of a program have one set.
const MAX_KNOWN: usize = 8;

/// Maximum number of directories cached as unprotected: more than one call visits, at a few hundred bytes each.
const MAX_FREE: usize = 1024;

/// Maximum depth of directories. A path of the kernel has at most 4096 bytes, and each step up takes three.
const MAX_DEPTH: usize = 1000;

/// The protection of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProtectedObject {
    pub(super) level: Protection,
    /// Whether the object is the protected file or directory itself, and not something inside.
    pub(super) itself: bool,
}

pub(super) enum ProtectionCheck {
    /// The object was moved or removed meanwhile; the path must be resolved again.
    Gone,
    Free,
    Protected(ProtectedObject),
}

/// Device and inode: the identity of an object, independent of its name.
type FileId = (u64, u64);

#[derive(Debug, Default)]
pub(crate) struct ProtectedPaths {
    hidden: Vec<Root>,
    fixed: Vec<Root>,
    protected: Vec<ProtectedDirectory>,
    top: Option<FileId>,
    /// Directories without a protected ancestor, with their paths. A known directory at its known path is not
    /// checked again: only a process that may write in protected places could have moved it there.
    free: Lock<HashSet<(FileId, PathBuf)>>,
    /// Handles of everything in `protected`: an inode number is not given to another object meanwhile.
    _held: OpenHandles,
}

/// Open objects with their identities, by path.
type OpenHandles = BTreeMap<PathBuf, (File, FileId)>;

#[derive(Debug)]
struct ProtectedDirectory {
    level: Protection,
    path: PathBuf,
    /// The directory's identity, if it existed.
    identity: Option<FileId>,
    /// The paths of all links on the way to the directory, and its own path. A replacement of one of these, or of a
    /// directory above one, would replace the protected path.
    link_paths: Vec<PathBuf>,
    link_ids: Vec<FileId>,
}

/// The protected paths of each program, resolved once: an object stays protected after a move.
#[derive(Debug, Default)]
pub(crate) struct ProtectedPathsCache(Lock<Vec<Arc<ProtectedPaths>>>);

impl ProtectedPathsCache {
    pub(crate) fn for_grant(&self, grant: &Grant) -> Arc<ProtectedPaths> {
        let mut known = self.0.lock();
        if let Some(protected_paths) = known.iter().find(|known| known.matches_grant(grant)) {
            return protected_paths.clone();
        }
        let protected_paths = Arc::new(ProtectedPaths::from_grant(grant));
        if known.len() >= MAX_KNOWN {
            known.remove(0);
        }
        known.push(protected_paths.clone());
        protected_paths
    }
}

impl ProtectedPaths {
    fn from_grant(grant: &Grant) -> Self {
        let mut handles = OpenHandles::new();
        let hidden = grant.hidden().map(|root| (Protection::Hidden, root));
        let fixed = grant.fixed().map(|root| (Protection::ReadOnly, root));
        let protected = hidden
            .chain(fixed)
            .map(|(level, root)| ProtectedDirectory::new(level, root, &mut handles))
            .collect();
        let top = statat(CWD, "/", AtFlags::empty()).ok().map(|stat| identity(&stat));
        Self {
            hidden: grant.hidden().cloned().collect(),
            fixed: grant.fixed().cloned().collect(),
            protected,
            top,
            free: Lock::default(),
            _held: handles,
        }
    }

    fn matches_grant(&self, grant: &Grant) -> bool {
        self.hidden.iter().eq(grant.hidden()) && self.fixed.iter().eq(grant.fixed())
    }

    pub(super) fn hides_nothing(&self) -> bool {
        self.hidden.is_empty()
    }

    /// Returns the protection of `object`, if any.
    /// Errors: `NotFound` for an object that was moved or removed meanwhile.
    pub(super) fn protection_of(&self, object: &Object) -> io::Result<Option<ProtectedObject>> {
        if self.protected.is_empty() {
            return Ok(None);
        }
        let path = real_path(&object.file)?;
        let mut strongest = StrongestProtection::default();
        self.by_place(&path, &mut strongest);
        self.by_identity(identity(&object.stat), true, &mut strongest);
        if object.kind() == FileType::Directory {
            self.check_ancestors((&object.file, identity(&object.stat)), &path, &mut strongest)?;
        } else {
            let parent = parent(&path, &object.stat)?;
            let own = identity(&fstat(&parent)?);
            self.by_identity(own, false, &mut strongest);
            self.check_ancestors((&parent, own), path.parent().unwrap_or(&path), &mut strongest)?;
        }
        Ok(strongest.0)
    }

    /// Checks `object`; returns `Gone` instead of the error `NotFound`.
    pub(super) fn check(&self, object: &Object) -> io::Result<ProtectionCheck> {
        match self.protection_of(object) {
            Ok(None) => Ok(ProtectionCheck::Free),
            Ok(Some(protection)) => Ok(ProtectionCheck::Protected(protection)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ProtectionCheck::Gone),
            Err(error) => Err(error),
        }
    }

    /// Returns the protection that prevents creating, replacing, moving or removing the entry `name` of
    /// `directory`; `itself` if the entry is protected, and not its directory.
    pub(super) fn protection_of_entry(
        &self,
        directory: &File,
        name: &str,
    ) -> io::Result<Option<ProtectedObject>> {
        if self.protected.is_empty() {
            return Ok(None);
        }
        let mut strongest = StrongestProtection::default();
        let place = real_path(directory)?;
        self.by_place(&place, &mut strongest);
        let own = identity(&fstat(directory)?);
        self.by_identity(own, false, &mut strongest);
        self.check_ancestors((directory, own), &place, &mut strongest)?;
        let (place, inside) = (place.join(name), strongest.0.map(|protection| protection.level));
        let there = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| identity(&stat));
        let is_way = |protected: &&ProtectedDirectory| {
            protected.link_paths.iter().any(|path| path.starts_with(&place))
                || there.is_some_and(|there| {
                    protected.link_ids.contains(&there) || protected.identity == Some(there)
                })
        };
        let way = self.protected.iter().filter(is_way).map(|protected| protected.level).max();
        Ok(way.max(inside).map(|level| ProtectedObject { level, itself: inside != Some(level) }))
    }

    /// Adds the protection of the protected paths that contain `path`, as the kernel has it.
    fn by_place(&self, path: &Path, strongest: &mut StrongestProtection) {
        for protected in self.protected.iter().filter(|protected| path.starts_with(&protected.path)) {
            strongest.raise_to(protected.level, path == protected.path);
        }
    }

    fn by_identity(&self, identity: FileId, itself: bool, strongest: &mut StrongestProtection) {
        for protected in self.protected.iter().filter(|protected| protected.identity == Some(identity)) {
            strongest.raise_to(protected.level, itself);
        }
    }

    /// Adds the protection of every directory above `directory`, which is at `place`.
    fn check_ancestors(
        &self,
        (directory, own): (&File, FileId),
        place: &Path,
        strongest: &mut StrongestProtection,
    ) -> io::Result<()> {
        let known = (own, place.to_owned());
        if self.free.lock().contains(&known) {
            return Ok(());
        }
        let mut ancestors = StrongestProtection::default();
        self.walk_up(directory, own, &mut ancestors)?;
        match ancestors.0 {
            Some(protection) => strongest.raise_to(protection.level, protection.itself),
            None => self.remember(known),
        }
        Ok(())
    }

    fn walk_up(&self, directory: &File, own: FileId, strongest: &mut StrongestProtection) -> io::Result<()> {
        let (mut last, mut up) = (own, String::with_capacity(64));
        for _ in 0..MAX_DEPTH {
            up.push_str("../");
            let next = identity(&statat(directory, &*up, AtFlags::empty())?);
            if next == last && Some(next) == self.top {
                return Ok(());
            }
            self.by_identity(next, false, strongest);
            last = next;
        }
        Err(io::Error::from_raw_os_error(rustix::io::Errno::NAMETOOLONG.raw_os_error()))
    }

    fn remember(&self, free: (FileId, PathBuf)) {
        let mut known = self.free.lock();
        if known.len() >= MAX_FREE {
            known.clear();
        }
        known.insert(free);
    }
}

/// The strongest protection found so far.
#[derive(Default)]
struct StrongestProtection(Option<ProtectedObject>);

impl StrongestProtection {
    fn raise_to(&mut self, level: Protection, itself: bool) {
        let protection = match self.0 {
            Some(known) if known.level > level => known,
            Some(known) if known.level == level => ProtectedObject { level, itself: known.itself && itself },
            _ => ProtectedObject { level, itself },
        };
        self.0 = Some(protection);
    }
}

impl ProtectedDirectory {
    fn new(level: Protection, root: &Root, handles: &mut OpenHandles) -> Self {
        let mut link_paths = root.links();
        link_paths.push(root.real().to_owned());
        let ancestors = link_paths.iter().flat_map(|path| path.ancestors());
        let link_ids = ancestors.filter_map(|place| open_handle(place, handles)).collect();
        Self {
            level,
            path: root.real().to_owned(),
            identity: open_handle(root.real(), handles),
            link_paths,
            link_ids,
        }
    }
}

/// Opens the object at `path`, for as long as `handles` lives.
fn open_handle(path: &Path, handles: &mut OpenHandles) -> Option<FileId> {
    if let Some((_, identity)) = handles.get(path) {
        return Some(*identity);
    }
    let flags = HANDLE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty()).ok()?);
    let identity = identity(&fstat(&file).ok()?);
    handles.insert(path.to_owned(), (file, identity));
    Some(identity)
}

fn parent(path: &Path, object: &Stat) -> io::Result<File> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let flags = HANDLE | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = File::from(openat(CWD, parent, flags, Mode::empty())?);
    let there = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if identity(&there) == identity(object) { Ok(parent) } else { Err(io::ErrorKind::NotFound.into()) }
}

#[cfg(test)]
mod tests;
