//! The registrations of a socket in the command's epoll instances. They end when the socket is replaced, so that event
//! loops that register a socket before they connect it would wait for ever.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::confine::sys::platform::{Notification, Registration};

/// Limit on the files of a process that are looked at: more than event loops have instances of.
const MAX_FILES: usize = 4096;
/// The target of an epoll instance's link in `/proc`.
const EPOLL: &str = "anon_inode:[eventpoll]";

/// Returns the registrations of the socket that the process of `call` has under `number`.
pub(super) fn of(call: &Notification, number: libc::c_int, socket: &OwnedFd) -> Vec<Registration> {
    let Ok(found) = rustix::fs::fstat(socket) else { return Vec::new() };
    let files = fs::read_dir(format!("/proc/{}/fd", call.process)).into_iter().flatten().flatten();
    let numbers = files.take(MAX_FILES).filter_map(|file| {
        let is_epoll = fs::read_link(file.path()).is_ok_and(|target| target == Path::new(EPOLL));
        file.file_name().to_str()?.parse::<libc::c_int>().ok().filter(|_| is_epoll)
    });
    let in_instance = |instance: libc::c_int| {
        let text = fs::read_to_string(format!("/proc/{}/fdinfo/{instance}", call.process)).ok()?;
        let (events, data) = text.lines().find_map(|line| registered(line, number, found.st_ino))?;
        Some(Registration { epoll: call.file(instance).ok()?, events, data })
    };
    numbers.filter_map(in_instance).collect()
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
