//! Reports the sandbox's refusals to the host. A seccomp filter makes calls that write files or connect wait
//! for the watcher (`SECCOMP_RET_USER_NOTIF`, `seccomp_unotify(2)`), which checks whether the mounts refuse
//! them, and lets every call continue. It decides nothing, so a process that changes its arguments meanwhile
//! gains nothing: at worst another path is reported. The calls of [`Sockets`] are another matter. Reads are observed only if reading is limited, or to learn what a
//! command needs; otherwise there are too many.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat};
use rustix::io::Errno;

use super::arguments::{address, int, is_listened_to, named_socket};
use super::seccomp::{FCHMODAT2, Rules};
use super::sockets::Sockets;
use crate::confine::policy::Policy;
use crate::confine::refusal::{MAX_REFUSALS, Refusal};
use crate::confine::sys::platform::{self as sys, Notification};
use crate::confine::wire::{self, REFUSED};

/// Limit on the bytes of a path in a system call (`PATH_MAX`).
const MAX_PATH: usize = 4096;

struct Named {
    call: i64,
    /// The argument with the directory that the path is relative to; `None`: the working directory.
    directory: Option<usize>,
    path: usize,
    change: Change,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// A file, or the directory in which it is created.
    File,
    /// A directory, by creating a new entry: for an existing entry the call fails anyway.
    Make,
    /// A directory, by removing or replacing an entry.
    Entry,
}

const fn named(call: i64, directory: Option<usize>, path: usize, change: Change) -> Named {
    Named { call, directory, path, change }
}

/// The observed calls besides `open`.
const CALLS: &[Named] = &[
    named(libc::SYS_mkdirat, Some(0), 1, Change::Make),
    named(libc::SYS_symlinkat, Some(1), 2, Change::Make),
    named(libc::SYS_linkat, Some(2), 3, Change::Make),
    named(libc::SYS_renameat, Some(0), 1, Change::Entry),
    named(libc::SYS_renameat, Some(2), 3, Change::Entry),
    named(libc::SYS_renameat2, Some(0), 1, Change::Entry),
    named(libc::SYS_renameat2, Some(2), 3, Change::Entry),
    named(libc::SYS_unlinkat, Some(0), 1, Change::Entry),
    named(libc::SYS_truncate, None, 0, Change::File),
    named(libc::SYS_fchmodat, Some(0), 1, Change::File),
    named(FCHMODAT2, Some(0), 1, Change::File),
    #[cfg(target_arch = "x86_64")]
    named(libc::SYS_mkdir, None, 0, Change::Make),
    #[cfg(target_arch = "x86_64")]
    named(libc::SYS_symlink, None, 1, Change::Make),
    #[cfg(target_arch = "x86_64")]
    named(libc::SYS_link, None, 1, Change::Make),
    #[cfg(target_arch = "x86_64")]
    named(libc::SYS_rename, None, 0, Change::Entry),
    #[cfg(target_arch = "x86_64")]
    named(libc::SYS_rename, None, 1, Change::Entry),
    #[cfg(target_arch = "x86_64")]
    named(libc::SYS_unlink, None, 0, Change::Entry),
    #[cfg(target_arch = "x86_64")]
    named(libc::SYS_rmdir, None, 0, Change::Entry),
    #[cfg(target_arch = "x86_64")]
    named(libc::SYS_creat, None, 0, Change::File),
    #[cfg(target_arch = "x86_64")]
    named(libc::SYS_chmod, None, 0, Change::File),
];

/// The `open` calls, each with the argument that holds its flags.
const OPENS: &[(Named, usize)] = &[
    (named(libc::SYS_openat, Some(0), 1, Change::File), 2),
    #[cfg(target_arch = "x86_64")]
    (named(libc::SYS_open, None, 0, Change::File), 1),
];

/// The calls that execute a file, which Landlock refuses like reading.
const EXECUTES: &[Named] =
    &[named(libc::SYS_execve, None, 0, Change::File), named(libc::SYS_execveat, Some(0), 1, Change::File)];

/// The flags of an `open` that writes.
const WRITING: [i32; 3] = [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT];

pub(super) fn rules(policy: &Policy) -> Result<Rules, seccompiler::Error> {
    let mut rules = super::seccomp::listed(CALLS.iter().map(|named| named.call));
    let reads = policy.read.is_some() || policy.learns;
    for (named, flags) in OPENS {
        let writing = || super::seccomp::any_bit(u8::try_from(*flags).unwrap_or_default(), &WRITING);
        rules.insert(named.call, if reads { Vec::new() } else { writing()? });
    }
    if reads {
        rules.extend(super::seccomp::listed(EXECUTES.iter().map(|named| named.call)));
    }
    if !policy.network || policy.supervises_sockets() {
        rules.insert(libc::SYS_connect, Vec::new());
    }
    if policy.supervises_sockets() {
        rules.extend(super::seccomp::listed([libc::SYS_bind, libc::SYS_listen]));
    }
    Ok(rules)
}

pub(super) struct Observer {
    listener: OwnedFd,
    policy: Policy,
    /// Of a policy with hosts or services.
    sockets: Option<Sockets>,
    reported: BTreeSet<Refusal>,
}

impl Observer {
    /// Receives the listener that the command sends on `from`; `None` if the kernel supports none.
    pub(super) fn receive(from: &OwnedFd, policy: &Policy, sockets: Option<Sockets>) -> Option<Self> {
        let mut message = wire::receive(from).ok().flatten()?;
        let listener = message.descriptors.pop()?;
        Some(Self { listener, policy: policy.clone(), sockets, reported: BTreeSet::new() })
    }

    /// Returns what is to be waited for.
    pub(super) fn sources(&self) -> Vec<PollFd<'_>> {
        let listener = PollFd::new(&self.listener, PollFlags::IN);
        std::iter::once(listener).chain(self.sockets.iter().flat_map(Sockets::sources)).collect()
    }

    /// Handles what happened to [`Self::sources`]. Returns `false` if the last observed process has ended.
    pub(super) fn happened(&mut self, events: &[PollFlags], control: &OwnedFd) -> bool {
        let Some((listener, sockets)) = events.split_first() else { return true };
        // Before the next call adds another source.
        if let Some(own) = &mut self.sockets {
            own.happened(self.listener.as_fd(), sockets);
        }
        if listener.contains(PollFlags::IN) {
            self.observe(control);
        }
        listener.contains(PollFlags::IN) || !listener.contains(PollFlags::HUP)
    }

    /// Lets one waiting call continue, and reports its refusal on `control`.
    fn observe(&mut self, control: &OwnedFd) {
        let Ok(call) = sys::next_notification(self.listener.as_fd()) else { return };
        // Checked before the call continues: the process may end then, and with it its working directory.
        for tried in tried(&call) {
            if self.reported.len() < MAX_REFUSALS
                && let Some(refusal) = self.refused(tried)
                && let Some(text) = refusal.encode()
                && self.reported.insert(refusal)
            {
                let _ = wire::send(control, REFUSED, &text, &[] as &[OwnedFd]);
            }
        }
        if let Some(sockets) = self.sockets.as_mut().filter(|_| Sockets::is_for(&call)) {
            return sockets.take(self.listener.as_fd(), call);
        }
        // An error means that the process has ended, or was interrupted and will repeat the call.
        let _ = sys::let_go_on(self.listener.as_fd(), &call);
    }

    fn refused(&self, tried: Tried) -> Option<Refusal> {
        match tried {
            Tried::Write(path, change) => self.refused_write(&path, change),
            Tried::Read(path) => self.refused_read(&path).map(Refusal::Read),
            Tried::Connect(_) if self.policy.network || !self.policy.hosts.is_empty() => None,
            Tried::Socket(path) => self.sockets.as_ref()?.refused_service(&path).map(Refusal::Socket),
            // The process's own network has only the loopback interface, with its own servers.
            Tried::Connect(address) if address.ip().is_loopback() && is_listened_to(address.port()) => None,
            Tried::Connect(address) => Some(Refusal::Connect(address)),
        }
    }

    /// Returns the refused write on `path`: one that the kernel would permit to this user outside the sandbox.
    fn refused_write(&self, path: &Path, change: Change) -> Option<Refusal> {
        let is_missing = may(path, Access::WRITE_OK) == Err(Errno::NOENT);
        let made_in = || self.closed(path.parent()?, path.file_name()?.as_ref());
        match change {
            _ if is_missing => made_in().map(Refusal::Write),
            Change::Make => None,
            Change::Entry | Change::File => {
                let entry = made_in().filter(|_| change == Change::Entry).map(Refusal::Remove);
                entry.or_else(|| self.closed(path, Path::new("")).map(Refusal::Write))
            }
        }
    }

    /// Returns `name` in `place`, without links, if this user may write there but the sandbox refuses it.
    fn closed(&self, place: &Path, name: &Path) -> Option<PathBuf> {
        let real =
            || Some(std::fs::canonicalize(place).ok()?.components().chain(name.components()).collect());
        match may(place, Access::WRITE_OK) {
            Err(Errno::ROFS) => real(),
            Ok(()) if !self.policy.layers.namespaces => {
                real().filter(|path: &PathBuf| !self.policy.may_write(path))
            }
            _ => None,
        }
    }

    /// Returns the refused read of `path`: Landlock limits reads by path, and the mounts cover what is hidden.
    fn refused_read(&self, path: &Path) -> Option<PathBuf> {
        let everything = [PathBuf::from("/")];
        let roots = self.policy.read.as_deref().or(self.policy.learns.then_some(&everything[..]))?;
        let is_below = |real: &Path, places: &[PathBuf]| places.iter().any(|place| real.starts_with(place));
        let real = without_links(path);
        match &real {
            Ok(real) if is_below(real, roots) && !is_below(real, &self.policy.hidden) => None,
            _ if may(path, Access::READ_OK).is_err() => self.covered(path),
            _ => real.ok().filter(|real| !is_below(real, roots)),
        }
    }

    /// Returns `path`, without links, if it is hidden. Whether there is anything cannot be seen here.
    fn covered(&self, path: &Path) -> Option<PathBuf> {
        let (above, real) =
            path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)))?;
        let real = real.join(path.strip_prefix(above).ok()?);
        // The process's private directory is open within a hidden one: a missing file there is not hidden.
        let is_own = self.policy.private.as_ref().is_some_and(|own| real.starts_with(own));
        let is_hidden = || self.policy.hidden.iter().any(|hidden| real.starts_with(hidden));
        (!is_own && is_hidden()).then_some(real)
    }
}

/// Checks access to `path` with this process's mounts and user, which are those of the command. The kernel
/// reports a read-only mount only if the file's mode permits the access.
fn may(path: &Path, access: Access) -> Result<(), Errno> {
    accessat(CWD, path, access, AtFlags::EACCESS)
}

/// Returns `path` without links. The kernel resolves it at once; `realpath` would read each component.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    let open = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    std::fs::read_link(format!("/proc/self/fd/{}", open.as_raw_fd()))
}

enum Tried {
    Write(PathBuf, Change),
    Read(PathBuf),
    Connect(SocketAddr),
    /// Connect to the unix socket at this path.
    Socket(PathBuf),
}

fn tried(call: &Notification) -> Vec<Tried> {
    if call.number == libc::SYS_connect {
        let socket = || named_socket(call).map(Tried::Socket);
        return address(call).map(Tried::Connect).or_else(socket).into_iter().collect();
    }
    let write = |named: &Named| Some(Tried::Write(path(call, named)?, named.change));
    if let Some((named, flags)) = OPENS.iter().find(|(named, _)| named.call == call.number) {
        let flags = call.arguments.get(*flags).copied().unwrap_or_default();
        let writes = WRITING.iter().any(|flag| flags & u64::from(flag.cast_unsigned()) != 0);
        let read = || path(call, named).map(Tried::Read);
        return if writes { write(named) } else { read() }.into_iter().collect();
    }
    if let Some(named) = EXECUTES.iter().find(|named| named.call == call.number) {
        return path(call, named).map(Tried::Read).into_iter().collect();
    }
    CALLS.iter().filter(|named| named.call == call.number).filter_map(write).collect()
}

/// Returns the absolute path in an argument of `call`.
fn path(call: &Notification, named: &Named) -> Option<PathBuf> {
    let mut bytes = [0; MAX_PATH];
    let text =
        call.read(*call.arguments.get(named.path)?, &mut bytes).ok()?.split(|byte| *byte == 0).next()?;
    let path = Path::new(OsStr::from_bytes(text));
    // Paths in `/proc` and `/dev` may depend on the process that opens them.
    if text.is_empty() || path.starts_with("/proc") || path.starts_with("/dev") {
        return None;
    }
    if path.is_absolute() {
        return Some(path.to_owned());
    }
    let process = call.process;
    let start = match named.directory {
        Some(argument) => match int(*call.arguments.get(argument)?) {
            libc::AT_FDCWD => format!("/proc/{process}/cwd"),
            directory => format!("/proc/{process}/fd/{directory}"),
        },
        None => format!("/proc/{process}/cwd"),
    };
    Some(Path::new(&start).join(path))
}

/// Installs the filter in this process and sends its listener on `to`; sends none if the kernel does not
/// support it and the policy can be kept without.
pub(super) fn begin(policy: &Policy, to: &OwnedFd) -> io::Result<()> {
    let listener = rules(policy).map_err(io::Error::other).and_then(super::seccomp::listened);
    let listener = match listener {
        Err(error) if policy.supervises_sockets() => return Err(error),
        listener => listener.ok(),
    };
    let listener: Vec<OwnedFd> = listener.into_iter().collect();
    wire::send(to, REFUSED, &[], &listener)
}
