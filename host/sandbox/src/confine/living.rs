//! The running children of a confiner. A child with a seal on a replaced file is ended: the mount over the old
//! file is gone, so the child could read or write the new one.
//!
//! One thread checks all children, from the first one until there was none for 5 seconds. Directory events of
//! the sealed paths wake it; for its first 250 ms, which most calls do not outlive, it polls instead, since
//! removing a watch takes longer than a short call.

#[cfg(target_os = "linux")]
mod events;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};

#[cfg(target_os = "linux")]
use self::events::Events;
use haft_core::grant::Root;
use haft_core::sync::Lock;

/// Interval between two checks without events.
const ROUND: Duration = Duration::from_millis(10);
/// Time for which the thread polls before it uses events.
const MOMENT: Duration = Duration::from_millis(250);
/// Interval between two checks with events: some file systems report no changes.
const IDLE: Duration = Duration::from_secs(1);
/// Time for which the thread stays without children: starting it again costs more.
const LINGER: Duration = Duration::from_secs(5);
/// Time limit for ended children: longer than a helper repeats KILL.
const END: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub(super) struct Living(Lock<LivingState>);

#[derive(Debug, Default)]
struct LivingState {
    children: Vec<Arc<LivingChild>>,
    watched: bool,
    /// `None` at first, after a change, and if the system provides no events.
    events: Option<Arc<Events>>,
}

#[derive(Debug)]
pub(super) struct LivingChild {
    /// The helper's socket. Its other end is closed when no process of the child is left.
    pub(super) control: Arc<OwnedFd>,
    pub(super) seals: Seals,
    /// Set once: the replaced file; `None` if the child ended by itself.
    pub(super) fate: OnceLock<Option<PathBuf>>,
}

impl LivingChild {
    pub(super) fn ended(&self) {
        let _ = self.fate.set(None);
    }

    /// Returns the replaced file because of which the child was ended.
    pub(super) fn replaced(&self) -> Option<&Path> {
        self.fate.get()?.as_deref()
    }

    fn check(&self) {
        if self.fate.get().is_some() {
            return;
        }
        let Some(path) = self.seals.broken() else { return };
        tracing::info!("ended a process: `{}` was replaced", path.display());
        let is_first = self.fate.set(Some(path)).is_ok();
        if is_first {
            // The helper treats this as the end of haft, and kills at once.
            let _ = shutdown(&self.control, Shutdown::Write);
        }
    }
}

impl Living {
    /// Adds a child before it becomes a command, and ends it if a seal is broken already.
    pub(super) fn take_in(self: &Arc<Self>, child: &Arc<LivingChild>) -> io::Result<()> {
        if child.seals.paths().next().is_none() {
            return Ok(());
        }
        let is_watched = {
            let mut state = self.0.lock();
            state.children.push(child.clone());
            let added = state.events.as_ref().map_or(Ok(()), |events| events.add(child.seals.paths()));
            // Without events the thread polls.
            if added.is_err() {
                state.events = None;
            }
            std::mem::replace(&mut state.watched, true)
        };
        child.check();
        if !is_watched && let Err(error) = self.start() {
            self.0.lock().watched = false;
            return Err(error);
        }
        Ok(())
    }

    fn start(self: &Arc<Self>) -> io::Result<()> {
        let living = self.clone();
        std::thread::Builder::new().name("haft-seals".into()).spawn(move || living.watch()).map(drop)
    }

    fn watch(&self) {
        let started = Instant::now();
        let mut needed = started;
        loop {
            let events = self.events(started.elapsed() > MOMENT);
            if self.check() {
                needed = Instant::now();
            } else if needed.elapsed() > LINGER && self.stop() {
                return;
            }
            let Some(events) = events else {
                std::thread::sleep(ROUND);
                continue;
            };
            if events.wait(IDLE) {
                self.check();
                self.watch_again(&events);
            }
        }
    }

    /// Returns the events of all children; creates them if they are missing and `wanted`.
    fn events(&self, wanted: bool) -> Option<Arc<Events>> {
        let mut state = self.0.lock();
        if state.events.is_none() && wanted {
            let paths = state.children.iter().flat_map(|child| child.seals.paths());
            state.events = Events::new(paths).ok().map(Arc::new);
        }
        state.events.clone()
    }

    /// Watches the directories that were replaced together with a sealed path.
    fn watch_again(&self, events: &Events) {
        let mut state = self.0.lock();
        let paths = state.children.iter().flat_map(|child| child.seals.paths());
        if events.add_again(paths).is_err() {
            state.events = None;
        }
    }

    /// Ends every child with a broken seal. Returns whether any child is running.
    fn check(&self) -> bool {
        let children = {
            let mut state = self.0.lock();
            state.children.retain(|child| !is_gone(&child.control, Duration::ZERO));
            state.children.clone()
        };
        for child in &children {
            child.check();
        }
        !children.is_empty()
    }

    /// Stops the thread, unless a child was added meanwhile.
    fn stop(&self) -> bool {
        let mut state = self.0.lock();
        if !state.children.is_empty() {
            return false;
        }
        *state = LivingState::default();
        true
    }

    /// Ends every child with a broken seal, and waits for their ends. Returns whether all have ended.
    pub(super) fn end_outdated(&self) -> bool {
        self.check();
        let children = self.0.lock().children.clone();
        let end = Instant::now() + END;
        let mut outdated = children.iter().filter(|child| child.replaced().is_some());
        outdated.all(|child| is_gone(&child.control, end.saturating_duration_since(Instant::now())))
    }
}

/// Reports whether the other end of a socket is closed now or within `limit`.
fn is_gone(control: &OwnedFd, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        // A hang-up is reported without a requested event.
        let mut events = [PollFd::new(control, PollFlags::empty())];
        let left = end.saturating_duration_since(Instant::now());
        let polled = poll(&mut events, Timespec::try_from(left).ok().as_ref());
        let [control] = events;
        if control.revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return true;
        }
        if polled.is_ok() || left.is_zero() {
            return false;
        }
    }
}

// The seals of a child: the identities of the files and directories that its mounts cover. A mount covers one
// file, and the kernel removes it in the child when another file replaces that file outside.

/// The identities of sealed paths at one moment.
#[derive(Clone, Debug)]
pub(super) struct Seals {
    roots: Vec<Root>,
    found: Vec<(PathBuf, Option<Identity>)>,
}

impl Seals {
    pub(super) fn of(roots: Vec<Root>) -> Self {
        Self { found: found(&roots), roots }
    }

    /// Returns the first path whose identity has changed.
    pub(super) fn broken(&self) -> Option<PathBuf> {
        let now = found(&self.roots);
        if now == self.found {
            return None;
        }
        let other = now.iter().find(|entry| !self.found.contains(entry));
        let gone = || self.found.iter().find(|entry| !now.contains(entry));
        other.or_else(gone).map(|(path, _)| path.clone())
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.found.iter().map(|(path, _)| &**path)
    }
}

fn found(roots: &[Root]) -> Vec<(PathBuf, Option<Identity>)> {
    let paths = roots.iter().flat_map(meant);
    paths.map(|path| (path.clone(), identity(&path))).collect()
}

/// Device and inode.
pub(super) type Identity = (u64, u64);

/// Returns the paths at which `root` is sealed: its path when it was resolved, and the current target of a link
/// to it.
pub(super) fn meant(root: &Root) -> impl Iterator<Item = PathBuf> {
    let now = Some(root.path()).filter(|path| *path != root.real()).and_then(|path| path.canonicalize().ok());
    std::iter::once(root.real().to_owned()).chain(now.filter(|now| now != root.real()))
}

/// Returns the identity of the object at `path`; a link counts as another object.
pub(super) fn identity(path: &Path) -> Option<Identity> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Events, which macOS does not need: Seatbelt denies by path, whichever file is there.
#[cfg(target_os = "macos")]
#[derive(Debug)]
pub(super) enum Events {}

#[cfg(target_os = "macos")]
impl Events {
    fn new<'a>(_: impl Iterator<Item = &'a Path>) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn add<'a>(&self, _: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        match *self {}
    }

    fn add_again<'a>(&self, _: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        match *self {}
    }

    fn wait(&self, _: Duration) -> bool {
        match *self {}
    }
}
