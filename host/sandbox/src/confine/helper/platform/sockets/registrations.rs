//! The registrations of a socket in the command's epoll instances. They end when the socket is replaced, so that event
//! loops that register a socket before they connect it would wait for ever.

use std::fs;
use std::iter;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;

use super::int;
use crate::confine::sys::platform::{Notification, Registration};

/// Limit on the files of a process that are looked at: more than event loops have instances of.
const MAX_FILES: usize = 4096;
/// The target of an epoll instance's link in `/proc`.
const EPOLL: &str = "anon_inode:[eventpoll]";

/// The numbers of a socket, and of epoll instances, in the files of a process.
pub(super) struct Numbers {
    pub(super) copies: Vec<libc::c_int>,
    instances: Vec<libc::c_int>,
    inode: u64,
}

impl Numbers {
    /// Returns the numbers of `socket`, the first of which is that of the call, and of the epoll instances. Another
    /// thread may have closed each meanwhile.
    pub(super) fn find(call: &Notification, socket: &OwnedFd) -> Result<Self, Errno> {
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
    pub(super) fn registrations(&self, call: &Notification, number: libc::c_int) -> Vec<Registration> {
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
