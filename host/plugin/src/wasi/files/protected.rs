//! What stays closed to every guest, whatever it was granted: haft's own directories and keys are
//! neither read nor written, the program in use is not written. Judged by what the kernel opened,
//! its identity and that of every directory above it, and by the path the kernel has for it; never
//! by the path that a guest passed.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};

use crate::wasi::files::resolve::{Object, real_path};
use haft_core::grant::{Grant, Root};

/// Sets of seals that are remembered: the plugins of a program have the same one.
const MAX_KNOWN: usize = 8;

/// Directories remembered to be free: more than one call looks into, at a few hundred bytes each.
const MAX_FREE: usize = 1024;

/// Links on one path, as many as the kernel follows.
const MAX_LINKS: usize = 40;

/// Directories above one another. A path of the kernel has at most 4096 bytes, and each step up
/// takes three.
const MAX_DEPTH: usize = 1000;

/// A handle that needs no right to what it is of.
#[cfg(target_os = "linux")]
const HANDLE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const HANDLE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

/// How closed something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Closed {
    /// It may be read, not written.
    Fixed,
    /// Neither.
    Hidden,
}

/// What keeps one object closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProtectedObject {
    pub(super) closed: Closed,
    /// Whether it is the closed file or directory itself, and not something inside.
    pub(super) itself: bool,
}

/// What is known of an object before anything is done to it.
pub(super) enum Judged {
    /// It has lost its place meanwhile; what has it now must be found again.
    Gone,
    /// Nothing keeps it closed.
    Free,
    ProtectedDirectory(ProtectedObject),
}

/// Device and inode: what an object is, whatever it is called.
type Identity = (u64, u64);

/// Everything closed to the guests of one program.
#[derive(Debug, Default)]
pub(crate) struct ProtectedPaths {
    hidden: Vec<Root>,
    fixed: Vec<Root>,
    sealed: Vec<ProtectedDirectory>,
    /// Of `/`.
    top: Option<Identity>,
    /// Directories that nothing closed lies above, with their places. The same directory in the same
    /// place is not looked at again: only who may write in closed places could have put it there.
    free: Mutex<HashSet<(Identity, PathBuf)>>,
    /// Handles of everything in `sealed`: an inode number is not given to another object meanwhile.
    _held: Held,
}

/// Open objects by their place, with what they are.
type Held = BTreeMap<PathBuf, (File, Identity)>;

/// One closed file or directory.
#[derive(Debug)]
struct ProtectedDirectory {
    closed: Closed,
    path: PathBuf,
    /// What it is, if it was there.
    identity: Option<Identity>,
    /// The places of all links that its name leads through, and its own: whoever could put something
    /// else in such a place, or in that of a directory above it, would put it in place of the whole.
    ways: Vec<PathBuf>,
    /// What is in those places.
    way: Vec<Identity>,
}

/// The seals of each program, found once: what is closed stays so, wherever it is moved.
#[derive(Debug, Default)]
pub(crate) struct KnownProtectedPaths(Mutex<Vec<Arc<ProtectedPaths>>>);

impl KnownProtectedPaths {
    /// The seals of a grant.
    pub(crate) fn of(&self, grant: &Grant) -> Arc<ProtectedPaths> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seals) = known.iter().find(|seals| seals.is_of(grant)) {
            return seals.clone();
        }
        let seals = Arc::new(ProtectedPaths::of(grant));
        if known.len() >= MAX_KNOWN {
            known.remove(0);
        }
        known.push(seals.clone());
        seals
    }
}

impl ProtectedPaths {
    fn of(grant: &Grant) -> Self {
        let mut held = Held::new();
        let hidden = grant.hidden().iter().map(|root| (Closed::Hidden, root));
        let fixed = grant.fixed().iter().map(|root| (Closed::Fixed, root));
        let sealed = hidden
            .chain(fixed)
            .map(|(closed, root)| ProtectedDirectory::new(closed, root, &mut held))
            .collect();
        let top = statat(CWD, "/", AtFlags::empty()).ok().map(|stat| identity(&stat));
        Self {
            hidden: grant.hidden().into(),
            fixed: grant.fixed().into(),
            sealed,
            top,
            free: Mutex::default(),
            _held: held,
        }
    }

    fn is_of(&self, grant: &Grant) -> bool {
        self.hidden == grant.hidden() && self.fixed == grant.fixed()
    }

    /// Whether nothing is hidden.
    pub(super) fn hides_nothing(&self) -> bool {
        self.hidden.is_empty()
    }

    /// What keeps `object` closed, if anything does. Fails with `NotFound` for an object that lost
    /// its place meanwhile.
    pub(super) fn on(&self, object: &Object) -> io::Result<Option<ProtectedObject>> {
        if self.sealed.is_empty() {
            return Ok(None);
        }
        let path = real_path(&object.file)?;
        let mut found = Found::default();
        self.by_place(&path, &mut found);
        self.by_identity(identity(&object.stat), true, &mut found);
        if object.kind() == FileType::Directory {
            self.above(&object.file, &path, &mut found)?;
        } else {
            let parent = parent(&path, &object.stat)?;
            self.by_identity(identity(&fstat(&parent)?), false, &mut found);
            self.above(&parent, path.parent().unwrap_or(&path), &mut found)?;
        }
        Ok(found.0)
    }

    /// The same, where an object may have lost its place.
    pub(super) fn judge(&self, object: &Object) -> io::Result<Judged> {
        match self.on(object) {
            Ok(None) => Ok(Judged::Free),
            Ok(Some(seal)) => Ok(Judged::ProtectedDirectory(seal)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Judged::Gone),
            Err(error) => Err(error),
        }
    }

    /// What keeps the entry `name` of `directory` from being made, replaced, moved or removed.
    /// `itself` where it is the entry, and not the directory, that is closed.
    pub(super) fn on_entry(&self, directory: &File, name: &str) -> io::Result<Option<ProtectedObject>> {
        if self.sealed.is_empty() {
            return Ok(None);
        }
        let mut found = Found::default();
        let place = real_path(directory)?;
        self.by_place(&place, &mut found);
        self.by_identity(identity(&fstat(directory)?), false, &mut found);
        self.above(directory, &place, &mut found)?;
        let (place, inside) = (place.join(name), found.0.map(|seal| seal.closed));
        let there = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| identity(&stat));
        let is_way = |sealed: &&ProtectedDirectory| {
            sealed.ways.iter().any(|way| way.starts_with(&place))
                || there.is_some_and(|there| sealed.way.contains(&there) || sealed.identity == Some(there))
        };
        let way = self.sealed.iter().filter(is_way).map(|sealed| sealed.closed).max();
        Ok(way.max(inside).map(|closed| ProtectedObject { closed, itself: inside != Some(closed) }))
    }

    /// What is closed where `path`, as the kernel has it, leads.
    fn by_place(&self, path: &Path, found: &mut Found) {
        for sealed in self.sealed.iter().filter(|sealed| path.starts_with(&sealed.path)) {
            found.note(sealed.closed, path == sealed.path);
        }
    }

    fn by_identity(&self, identity: Identity, itself: bool, found: &mut Found) {
        for sealed in self.sealed.iter().filter(|sealed| sealed.identity == Some(identity)) {
            found.note(sealed.closed, itself);
        }
    }

    /// Looks at every directory above `directory`, which is at `place`.
    fn above(&self, directory: &File, place: &Path, found: &mut Found) -> io::Result<()> {
        let own = identity(&fstat(directory)?);
        let known = (own, place.to_owned());
        if self.free.lock().unwrap_or_else(PoisonError::into_inner).contains(&known) {
            return Ok(());
        }
        let mut above = Found::default();
        self.climb(directory, own, &mut above)?;
        match above.0 {
            Some(seal) => found.note(seal.closed, seal.itself),
            None => self.remember(known),
        }
        Ok(())
    }

    fn climb(&self, directory: &File, own: Identity, found: &mut Found) -> io::Result<()> {
        let (mut last, mut up) = (own, String::with_capacity(64));
        for _ in 0..MAX_DEPTH {
            up.push_str("../");
            let next = identity(&statat(directory, &*up, AtFlags::empty())?);
            if next == last && Some(next) == self.top {
                return Ok(());
            }
            self.by_identity(next, false, found);
            last = next;
        }
        Err(io::Error::from_raw_os_error(rustix::io::Errno::NAMETOOLONG.raw_os_error()))
    }

    fn remember(&self, free: (Identity, PathBuf)) {
        let mut known = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_FREE {
            known.clear();
        }
        known.insert(free);
    }
}

/// The strongest seal found so far.
#[derive(Default)]
struct Found(Option<ProtectedObject>);

impl Found {
    fn note(&mut self, closed: Closed, itself: bool) {
        let seal = match self.0 {
            Some(known) if known.closed > closed => known,
            Some(known) if known.closed == closed => {
                ProtectedObject { closed, itself: known.itself && itself }
            }
            _ => ProtectedObject { closed, itself },
        };
        self.0 = Some(seal);
    }
}

impl ProtectedDirectory {
    fn new(closed: Closed, root: &Root, held: &mut Held) -> Self {
        let mut ways = links(root.path());
        ways.push(root.real().to_owned());
        let places = ways.iter().flat_map(|way| way.ancestors());
        let way = places.filter_map(|place| hold(place, held)).collect();
        Self { closed, path: root.real().to_owned(), identity: hold(root.real(), held), ways, way }
    }
}

/// Opens what is at `path`, for as long as `held` lives.
fn hold(path: &Path, held: &mut Held) -> Option<Identity> {
    if let Some((_, identity)) = held.get(path) {
        return Some(*identity);
    }
    let flags = HANDLE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty()).ok()?);
    let identity = identity(&fstat(&file).ok()?);
    held.insert(path.to_owned(), (file, identity));
    Some(identity)
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

/// The directory that the object at `path` stands in, if it does.
fn parent(path: &Path, object: &Stat) -> io::Result<File> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let flags = HANDLE | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = File::from(openat(CWD, parent, flags, Mode::empty())?);
    let there = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if identity(&there) == identity(object) { Ok(parent) } else { Err(io::ErrorKind::NotFound.into()) }
}

#[cfg(target_os = "linux")]
fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::cast_sign_loss, reason = "a number that stands for something, not a quantity")]
fn identity(stat: &Stat) -> Identity {
    (stat.st_dev as u64, stat.st_ino)
}

#[cfg(test)]
mod tests;
