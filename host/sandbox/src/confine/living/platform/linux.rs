//! Linux: inotify on every directory above what is sealed.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;

use super::timespec;
use haft_core::sync::Lock;

/// What one read takes: some hundred events.
const BUFFER: usize = 16 << 10;
/// Watches of one inotify: those of directories that were moved away stay, and a user has a limited number.
const MAX_WATCHES: usize = 1000;

/// Changes of directories.
#[derive(Debug)]
pub(in super::super) struct Events {
    inotify: OwnedFd,
    watched: Lock<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    directories: BTreeSet<PathBuf>,
    /// What may be replaced in one of them.
    names: BTreeSet<OsString>,
    /// Watches that were asked for.
    count: usize,
}

impl Events {
    pub(super) fn new<'a>(paths: impl Iterator<Item = &'a Path>) -> io::Result<Self> {
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let events = Self { inotify, watched: Lock::default() };
        events.add(paths)?;
        Ok(events)
    }

    /// Tells of changes on the way to `paths` too.
    pub(super) fn add<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        let mut watched = self.watched.lock();
        for path in paths.flat_map(Path::ancestors) {
            watched.names.extend(path.file_name().map(OsStr::to_owned));
            let Some(directory) = path.parent() else { continue };
            if watched.directories.insert(directory.to_owned()) {
                watched.count += 1;
                self.add_one(directory)?;
            }
        }
        if watched.count > MAX_WATCHES { Err(io::ErrorKind::QuotaExceeded.into()) } else { Ok(()) }
    }

    /// The same for directories that may have been replaced. To watch one twice is to watch it once.
    pub(super) fn add_again<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        self.watched.lock().directories.clear();
        self.add(paths)
    }

    fn add_one(&self, directory: &Path) -> io::Result<()> {
        let entries = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
        let itself = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        match add_watch(&self.inotify, directory, entries | itself | WatchFlags::ONLYDIR) {
            // What is not there is told of by the directory above; what may not be watched is looked at now and then.
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until something that is sealed may have been replaced; `false` when `limit` is over.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut events = [PollFd::new(&self.inotify, PollFlags::IN)];
            let _ = poll(&mut events, Some(&timespec(left)));
            if self.read() {
                return true;
            }
            if left.is_zero() {
                return false;
            }
        }
    }

    /// Reads what has happened, one buffer of it. Returns whether any of it counts.
    fn read(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut events = Reader::new(&self.inotify, &mut buffer);
        let watched = self.watched.lock();
        let mut counts = false;
        while let Ok(event) = events.next() {
            // Without a name it is of a directory itself, or events were lost.
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
