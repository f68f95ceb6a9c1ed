//! System calls of macOS without a safe wrapper in a library.
#![expect(unsafe_code, reason = "raw system calls; every one says why it is sound")]

use std::io;
use std::os::fd::RawFd;

use rustix::fs::{OFlags, Stat};
use rustix::process::{Pid, Resource, getrlimit};

/// The bytes of sockets, which macOS does not report.
#[expect(
    clippy::unnecessary_wraps,
    clippy::trivially_copy_pass_by_ref,
    reason = "the same signatures as on Linux"
)]
pub(crate) mod diagnostics {
    use std::io;
    use std::net::SocketAddr;
    use std::os::fd::OwnedFd;

    #[derive(Debug)]
    pub(crate) struct Socket {
        pub(crate) number: u64,
    }

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Counted {
        pub(crate) number: u64,
        pub(crate) sent: u64,
        pub(crate) received: u64,
    }

    impl Socket {
        pub(crate) fn of(_: &OwnedFd, _: SocketAddr) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    pub(crate) fn ended_sockets() -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn queries() -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn reports(_: &OwnedFd) -> io::Result<Vec<Counted>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn is_passing(_: &io::Error) -> bool {
        false
    }

    pub(crate) fn ask(_: &OwnedFd, _: &Socket) -> io::Result<Option<Counted>> {
        Ok(None)
    }
}

/// Limit on the descriptors that are closed one by one, if the limit on open files is missing or excessive.
const MAX_DESCRIPTORS: u64 = 65_536;

/// Limit on the processes of this machine that are listed.
const MAX_PROCESSES: usize = 10_000;

/// A handle needs the right to read on macOS.
pub(crate) const HANDLE: OFlags = OFlags::RDONLY;

/// Bytes per unit of `getrusage(2)`'s memory fields.
pub(crate) const PEAK_UNIT: u64 = 1;

/// Returns the highest signal number (`NSIG` in `signal.h`, minus one).
pub(crate) fn last_signal() -> i32 {
    31
}

/// Returns device and inode, with the types of the standard library.
#[expect(clippy::cast_sign_loss, reason = "a number that stands for something, not a quantity")]
pub(crate) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino)
}

/// Closes every descriptor from `first` on.
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
pub(crate) fn close_from(first: RawFd) -> io::Result<()> {
    let limit =
        getrlimit(Resource::Nofile).current.map_or(MAX_DESCRIPTORS, |limit| limit.min(MAX_DESCRIPTORS));
    for descriptor in first..RawFd::try_from(limit).unwrap_or(RawFd::MAX) {
        // SAFETY: called before anything owns a descriptor. Most are not open, which is no failure.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}

/// Returns every process of this machine with its parent.
pub(crate) fn processes() -> Vec<(Pid, i32)> {
    let mut numbers = vec![0; MAX_PROCESSES];
    let bytes = i32::try_from(size_of_val(numbers.as_slice())).unwrap_or(i32::MAX);
    // SAFETY: the buffer has as many bytes as are given. Returns how many numbers it wrote.
    let count = unsafe { libc::proc_listallpids(numbers.as_mut_ptr().cast(), bytes) };
    numbers.truncate(usize::try_from(count).unwrap_or_default());
    numbers.into_iter().filter_map(|number| Some((Pid::from_raw(number)?, parent(number)?))).collect()
}

fn parent(process: libc::c_int) -> Option<i32> {
    let size = i32::try_from(size_of::<libc::proc_bsdinfo>()).ok()?;
    // SAFETY: all-zero is a valid value, and the kernel fills it in; the size is that of the buffer.
    let (info, filled) = unsafe {
        let mut info = std::mem::zeroed::<libc::proc_bsdinfo>();
        let to = (&raw mut info).cast();
        let filled = libc::proc_pidinfo(process, libc::PROC_PIDTBSDINFO, 0, to, size);
        (info, filled)
    };
    if filled == size { i32::try_from(info.pbi_ppid).ok() } else { None }
}
