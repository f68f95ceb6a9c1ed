//! Puts a socket of haft's own network instead of one of the command's, with its flags and options.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::iter;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt::socket_domain;
use rustix::net::{AddressFamily, SocketType};

use super::{int, is_waited_for, number};
use crate::confine::sys::platform::{self as sys, Notification, Registration};

/// Bytes of the longest copied option: the name of a congestion control, and a time.
const MAX_OPTION: usize = 16;

/// The options that programs set before they connect. An option that the kernel lacks is left out.
const OPTIONS: &[(libc::c_int, libc::c_int)] = &[
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_LINGER),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_RCVBUF),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_SNDBUF),
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
    (libc::IPPROTO_IP, libc::IP_RECVERR),
    (libc::IPPROTO_IP, libc::IP_TOS),
    // Which the one before sets too.
    (libc::SOL_SOCKET, libc::SO_PRIORITY),
    (libc::IPPROTO_IP, libc::IP_TTL),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
    (libc::IPPROTO_TCP, libc::TCP_CORK),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
];

/// The options whose value the kernel doubles when they are set.
const BUFFERS: [(libc::c_int, libc::c_int); 2] =
    [(libc::SOL_SOCKET, libc::SO_RCVBUF), (libc::SOL_SOCKET, libc::SO_SNDBUF)];

/// The value of an option, with its number of bytes: 0 if the kernel lacks the option.
type Value = ([u8; MAX_OPTION], usize);

/// The options of new sockets in the command's network namespace, by domain. A socket with another value has it from
/// the command.
#[derive(Default)]
pub(super) struct Defaults(BTreeMap<u16, Vec<Value>>);

impl Defaults {
    /// Returns the options of new sockets of this domain, which are read once.
    fn of(&mut self, domain: AddressFamily) -> Result<&[Value], Errno> {
        Ok(match self.0.entry(domain.as_raw()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let new = rustix::net::socket(domain, SocketType::STREAM, None)?;
                unknown.insert(OPTIONS.iter().map(|option| value(&new, *option)).collect())
            }
        })
    }

    /// Sets the options that the command set on `from`.
    fn copy(&mut self, from: &OwnedFd, to: BorrowedFd<'_>) -> Result<(), Errno> {
        for (option, default) in OPTIONS.iter().zip(self.of(socket_domain(from)?)?) {
            let (mut wanted, length) = value(from, *option);
            if (wanted, length) == *default {
                continue;
            }
            if BUFFERS.contains(option) {
                let half = u32::from_ne_bytes(*wanted.first_chunk().unwrap_or(&[0; 4])) / 2;
                wanted[..4].copy_from_slice(&half.to_ne_bytes());
            }
            // The connection works without it.
            let _ = sys::set_option(to, *option, wanted.get(..length).unwrap_or_default());
        }
        Ok(())
    }
}

fn value(socket: &OwnedFd, option: (libc::c_int, libc::c_int)) -> Value {
    let mut value = [0; MAX_OPTION];
    let length = sys::option(socket.as_fd(), option, &mut value).unwrap_or(0);
    (value, length)
}

/// Puts `connected` instead of `socket`, on which `call` waits, and instead of each copy that its process has of it.
pub(super) fn hand_over(
    listener: BorrowedFd<'_>,
    defaults: &mut Defaults,
    (call, socket): (&Notification, &OwnedFd),
    connected: &OwnedFd,
) -> Result<(), Errno> {
    defaults.copy(socket, connected.as_fd())?;
    if is_waited_for(socket)? {
        // The host's flags are those of a socket that does not wait.
        rustix::fs::fcntl_setfl(connected, OFlags::empty())?;
    }
    let numbers = Numbers::find(call, socket)?;
    if numbers.copies.is_empty() {
        return Err(Errno::BADF);
    }
    for copy in &numbers.copies {
        let registered = numbers.registrations(call, *copy);
        let place = (*copy, is_closed_on_exec(call.process, *copy));
        call.put(listener, connected.as_fd(), place).map_err(|error| number(&error))?;
        if !registered.is_empty() {
            let files = (socket.as_fd(), connected.as_fd());
            sys::exchange(&registered, *copy, files).map_err(|error| number(&error))?;
        }
    }
    Ok(())
}

/// Returns whether a process's descriptor is closed when it executes another program (`proc_pid_fdinfo(5)`).
fn is_closed_on_exec(process: u32, descriptor: libc::c_int) -> bool {
    let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")).unwrap_or_default();
    let flags =
        text.lines().find_map(|line| i32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    flags.is_none_or(|flags| flags & libc::O_CLOEXEC != 0)
}

// The registrations of a socket in the command's epoll instances. They end when the socket is replaced, so that event
// loops that register a socket before they connect it would wait for ever.

/// Limit on the files of a process that are looked at: more than event loops have instances of.
const MAX_FILES: usize = 4096;
/// The target of an epoll instance's link in `/proc`.
const EPOLL: &str = "anon_inode:[eventpoll]";

/// The numbers of a socket, and of epoll instances, in the files of a process.
struct Numbers {
    copies: Vec<libc::c_int>,
    instances: Vec<libc::c_int>,
    inode: u64,
}

impl Numbers {
    /// Returns the numbers of `socket`, the first of which is that of the call, and of the epoll instances. Another
    /// thread may have closed each meanwhile.
    fn find(call: &Notification, socket: &OwnedFd) -> Result<Self, Errno> {
        let inode = rustix::fs::fstat(socket)?.st_ino;
        let name = format!("socket:[{inode}]");
        let target =
            |number| fs::read_link(format!("/proc/{}/fd/{number}", call.process)).unwrap_or_default();
        let own = int(call.arguments[0]);
        let files = fs::read_dir(format!("/proc/{}/fd", call.process)).into_iter().flatten().flatten();
        let others = files.take(MAX_FILES).filter_map(|file| file.file_name().to_str()?.parse().ok());
        let mut found = Self { copies: Vec::new(), instances: Vec::new(), inode };
        for number in iter::once(own).chain(others.filter(|number| *number != own)) {
            match target(number) {
                target if target == Path::new(&name) => found.copies.push(number),
                target if target == Path::new(EPOLL) => found.instances.push(number),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Returns the registrations of the socket under `number`.
    fn registrations(&self, call: &Notification, number: libc::c_int) -> Vec<Registration> {
        let in_instance = |instance: &libc::c_int| {
            let text = fs::read_to_string(format!("/proc/{}/fdinfo/{instance}", call.process)).ok()?;
            let (events, data) = text.lines().find_map(|line| registered(line, number, self.inode))?;
            Some(Registration { epoll: call.file(*instance).ok()?, events, data })
        };
        self.instances.iter().filter_map(in_instance).collect()
    }
}

/// Returns events and data in a line `tfd: 5 events: 19 data: 5 pos:0 ino:3 sdev:9` (`proc_pid_fdinfo(5)`), whose
/// numbers but the first are hexadecimal, if it is of this file.
fn registered(line: &str, number: libc::c_int, inode: u64) -> Option<(u32, u64)> {
    let spaced = line.replace(':', " ");
    let mut words = spaced.split_whitespace();
    let mut after = |name: &str| words.by_ref().skip_while(|word| *word != name).nth(1);
    let is_number = after("tfd")?.parse() == Ok(number);
    let events = u32::from_str_radix(after("events")?, 16).ok()?;
    let data = u64::from_str_radix(after("data")?, 16).ok()?;
    let is_file = u64::from_str_radix(after("ino")?, 16) == Ok(inode);
    (is_number && is_file).then_some((events, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_is_that_of_its_file() {
        let line = "tfd:        5 events: 80000019 data: ffffffff00000005  pos:0 ino:1f3 sdev:9";
        assert_eq!(registered(line, 5, 0x1f3), Some((0x8000_0019, 0xffff_ffff_0000_0005)));
        assert_eq!(registered(line, 6, 0x1f3), None);
        assert_eq!(registered(line, 5, 0x1f4), None);
        assert_eq!(registered("flags:\t02", 5, 0x1f3), None);
    }
}
