//! inotify events of every directory above a sealed path.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;

use haft_core::sync::Lock;

/// Bytes of one read: some hundred events.
const BUFFER: usize = 16 << 10;
/// Limit on the watches of one inotify instance: watches of moved directories stay, and a user has a limited
/// number.
const MAX_WATCHES: usize = 1000;

#[derive(Debug)]
pub(in super::super) struct Events {
    inotify: OwnedFd,
    watched: Lock<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    directories: BTreeSet<PathBuf>,
    /// The names of sealed entries in these directories.
    names: BTreeSet<OsString>,
    /// The number of requested watches.
    count: usize,
}

impl Events {
    pub(super) fn new<'a>(paths: impl Iterator<Item = &'a Path>) -> io::Result<Self> {
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let events = Self { inotify, watched: Lock::default() };
        events.add(paths)?;
        Ok(events)
    }

    /// Watches the parents of `paths` too.
    pub(super) fn add<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        let mut watched = self.watched.lock();
        for path in paths.flat_map(Path::ancestors) {
            watched.names.extend(path.file_name().map(OsStr::to_owned));
            let Some(directory) = path.parent() else { continue };
            if watched.directories.insert(directory.to_owned()) {
                watched.count += 1;
                self.add_directory(directory)?;
            }
        }
        if watched.count > MAX_WATCHES { Err(io::ErrorKind::QuotaExceeded.into()) } else { Ok(()) }
    }

    /// Watches directories again that may have been replaced. Watching a directory twice has no effect.
    pub(super) fn add_again<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        self.watched.lock().directories.clear();
        self.add(paths)
    }

    fn add_directory(&self, directory: &Path) -> io::Result<()> {
        let entries = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
        let itself = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        match add_watch(&self.inotify, directory, entries | itself | WatchFlags::ONLYDIR) {
            // The creation of a missing directory is an event of its parent; a directory that cannot be watched
            // is checked by time.
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until a sealed path may have been replaced; returns `false` after `limit`.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut events = [PollFd::new(&self.inotify, PollFlags::IN)];
            let _ = poll(&mut events, Timespec::try_from(left).ok().as_ref());
            if self.read() {
                return true;
            }
            if left.is_zero() {
                return false;
            }
        }
    }

    /// Reads one buffer of events. Returns whether any of them is relevant.
    fn read(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut events = Reader::new(&self.inotify, &mut buffer);
        let watched = self.watched.lock();
        let mut counts = false;
        while let Ok(event) = events.next() {
            // An event without a name is of the directory itself, or reports lost events.
            counts |= event
                .file_name()
                .is_none_or(|name| watched.names.contains(OsStr::from_bytes(name.to_bytes())));
            if events.is_buffer_empty() {
                break;
            }
        }
        counts
    }
}
