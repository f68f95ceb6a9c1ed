//! What stays closed to every guest, whatever it was granted: haft's own directories and keys are
//! neither read nor written, the program in use is not written. Judged by what the kernel opened,
//! its identity and that of every directory above it, and by the path the kernel has for it; never
//! by the path that a guest passed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};

use super::look::{Object, real_path};
use crate::grant::{Grant, Root};

/// Sets of seals that are remembered: the plugins of a program have the same one.
const MAX_KNOWN: usize = 8;

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
pub(in super::super) enum Closed {
    /// It may be read, not written.
    Fixed,
    /// Neither.
    Hidden,
}

/// What keeps one object closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    pub(super) closed: Closed,
    /// Whether it is the closed file or directory itself, and not something inside.
    pub(super) itself: bool,
}

/// Device and inode: what an object is, whatever it is called.
type Identity = (u64, u64);

/// Everything closed to the guests of one program.
#[derive(Debug, Default)]
pub(in super::super) struct Seals {
    hidden: Vec<Root>,
    fixed: Vec<Root>,
    sealed: Vec<Sealed>,
    /// Of `/`.
    top: Option<Identity>,
    /// Handles of everything in `sealed`: an inode number is not given to another object meanwhile.
    _held: Held,
}

/// Open objects by their place, with what they are.
type Held = BTreeMap<PathBuf, (File, Identity)>;

/// One closed file or directory.
#[derive(Debug)]
struct Sealed {
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
pub(in super::super) struct KnownSeals(Mutex<Vec<Arc<Seals>>>);

impl KnownSeals {
    /// The seals of a grant.
    pub(in super::super) fn of(&self, grant: &Grant) -> Arc<Seals> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seals) = known.iter().find(|seals| seals.is_of(grant)) {
            return seals.clone();
        }
        let seals = Arc::new(Seals::of(grant));
        if known.len() >= MAX_KNOWN {
            known.remove(0);
        }
        known.push(seals.clone());
        seals
    }
}

impl Seals {
    fn of(grant: &Grant) -> Self {
        let mut held = Held::new();
        let hidden = grant.hidden().iter().map(|root| (Closed::Hidden, root));
        let fixed = grant.fixed().iter().map(|root| (Closed::Fixed, root));
        let sealed = hidden.chain(fixed).map(|(closed, root)| Sealed::new(closed, root, &mut held)).collect();
        let top = statat(CWD, "/", AtFlags::empty()).ok().map(|stat| identity(&stat));
        Self { hidden: grant.hidden().into(), fixed: grant.fixed().into(), sealed, top, _held: held }
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
    pub(super) fn on(&self, object: &Object) -> io::Result<Option<Seal>> {
        if self.sealed.is_empty() {
            return Ok(None);
        }
        let path = real_path(&object.file)?;
        let parent = match object.kind() {
            FileType::Directory => None,
            _ => Some(parent(&path, &object.stat)?),
        };
        let mut found = Found::default();
        self.by_place(&path, &mut found);
        self.by_identity(identity(&object.stat), true, &mut found);
        let is_above = parent.is_some();
        self.above(parent.as_ref().unwrap_or(&object.file), is_above, &mut found)?;
        Ok(found.0)
    }

    /// What keeps the entry `name` of `directory` from being made, replaced, moved or removed.
    pub(super) fn on_entry(&self, directory: &File, name: &str) -> io::Result<Option<Closed>> {
        if self.sealed.is_empty() {
            return Ok(None);
        }
        let mut found = Found::default();
        let place = real_path(directory)?;
        self.by_place(&place, &mut found);
        self.above(directory, true, &mut found)?;
        let (place, inside) = (place.join(name), found.0.map(|seal| seal.closed));
        let there = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| identity(&stat));
        let is_way = |sealed: &&Sealed| {
            sealed.ways.iter().any(|way| way.starts_with(&place))
                || there.is_some_and(|there| sealed.way.contains(&there) || sealed.identity == Some(there))
        };
        let ways = self.sealed.iter().filter(is_way).map(|sealed| sealed.closed);
        Ok(ways.chain(inside).max())
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

    /// Looks at every directory above `directory`, and at itself where `included`.
    fn above(&self, directory: &File, included: bool, found: &mut Found) -> io::Result<()> {
        let mut last = identity(&fstat(directory)?);
        if included {
            self.by_identity(last, false, found);
        }
        let mut up = String::with_capacity(64);
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
}

/// The strongest seal found so far.
#[derive(Default)]
struct Found(Option<Seal>);

impl Found {
    fn note(&mut self, closed: Closed, itself: bool) {
        let seal = match self.0 {
            Some(known) if known.closed > closed => known,
            Some(known) if known.closed == closed => Seal { closed, itself: known.itself && itself },
            _ => Seal { closed, itself },
        };
        self.0 = Some(seal);
    }
}

impl Sealed {
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

#[cfg_attr(target_os = "linux", expect(clippy::useless_conversion, reason = "narrower elsewhere"))]
fn identity(stat: &Stat) -> Identity {
    #[expect(clippy::cast_sign_loss, reason = "a number that stands for something, not a quantity")]
    (stat.st_dev as u64, u64::from(stat.st_ino))
}

#[cfg(test)]
mod tests;
