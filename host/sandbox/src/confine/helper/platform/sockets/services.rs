//! The unix sockets of this machine's services. A call of `connect` names a path; the watcher opens the file there
//! without using it, compares it with the files of the granted services, and connects to that open file. So renames,
//! links and a changed address lead to no other service.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat2};
use rustix::io::Errno;

use super::super::arguments::socket_path;
use super::{Notification, is_waited_for, number, set_waiting, sys};
use crate::confine::policy::Policy;

const HANDLE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

pub(super) struct Services(Vec<Granted>);

enum Granted {
    /// The one at a path that the command cannot change.
    Path(PathBuf),
    /// The one that was there when the command started, if there was one. Open, so that its number is not used again.
    File(Option<OwnedFd>),
}

impl Services {
    pub(super) fn new(policy: &Policy) -> Self {
        let granted = |path: &PathBuf| {
            if policy.may_write(path) {
                Granted::File(without_links(path).ok())
            } else {
                Granted::Path(path.clone())
            }
        };
        Self(policy.sockets.iter().map(granted).collect())
    }

    /// Connects `socket` to the granted service that `call` names in `address`.
    pub(super) fn connect(&self, call: &Notification, socket: &OwnedFd, address: &[u8]) -> Result<(), Errno> {
        let file = socket_at(&socket_path(call, address).ok_or(Errno::ACCESS)?)?;
        if !self.includes(&file)? {
            return Err(Errno::ACCESS);
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let family = u16::try_from(libc::AF_UNIX).map_err(|_| Errno::INVAL)?.to_ne_bytes();
        // A full queue is an error, because the watcher does not wait.
        let waits = is_waited_for(socket)?;
        set_waiting(socket, false)?;
        let connected = sys::connect(socket.as_fd(), &[&family, path.as_bytes(), &[0]].concat());
        set_waiting(socket, waits)?;
        connected.map_err(|error| number(&error))
    }

    /// Returns the path without links of the socket at `path`, if it is not that of a granted service.
    pub(super) fn refused(&self, path: &Path) -> Option<PathBuf> {
        let file = socket_at(path).ok()?;
        let is_refused = !self.includes(&file).ok()?;
        is_refused.then(|| std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok())?
    }

    fn includes(&self, file: &OwnedFd) -> Result<bool, Errno> {
        let found = fstat(file)?;
        Ok(self.0.iter().any(|granted| granted.is(&found)))
    }
}

impl Granted {
    fn is(&self, found: &Stat) -> bool {
        let is_file = |file: &OwnedFd| {
            fstat(file).is_ok_and(|own| (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino))
        };
        match self {
            Self::File(file) => file.as_ref().is_some_and(is_file),
            Self::Path(path) => without_links(path).is_ok_and(|file| is_file(&file)),
        }
    }
}

fn without_links(path: &Path) -> Result<OwnedFd, Errno> {
    openat2(CWD, path, HANDLE | OFlags::NOFOLLOW, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Opens the file of a socket without using it.
fn socket_at(path: &Path) -> Result<OwnedFd, Errno> {
    let file = open(path, HANDLE, Mode::empty())?;
    let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
    if kind == FileType::Socket { Ok(file) } else { Err(Errno::CONNREFUSED) }
}
