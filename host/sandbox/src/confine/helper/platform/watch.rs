//! The watcher: waits for the command, reports its end to the host, and ends all of its processes, also when
//! the host is gone. Ends after the last process that it watches.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, pidfd_send_signal, wait,
};

use super::observe::Observer;
use crate::confine::helper::{KILL_BOUND, LINGER, TERM_GRACE};
use crate::confine::sys::peak_of_children;
use crate::confine::sys::platform as sys;
use crate::confine::wire::{self, ENDED, ExitReport, GONE, STOP};

/// Interval between two rounds of signals.
const ROUND: Duration = Duration::from_millis(10);
/// Limit on the processes found by one scan; the next scan finds the rest.
const MAX_FOUND: usize = 10_000;

/// Watches `command` and its descendants until none is left. `is_first`: this is the first process of a PID
/// namespace, so it sees no other processes.
pub(super) fn until_gone(
    (control, observer): (&OwnedFd, Option<Observer>),
    ended: &OwnedFd,
    command: Pid,
    is_first: bool,
) -> Result<()> {
    let mut watch = Watch { control, observer, command, is_first, reaped: 0, reported: false };
    loop {
        match watch.receive(ended, None)? {
            Received::Nothing => {}
            Received::ChildEnded => {
                if watch.reap()? {
                    watch.linger(ended);
                    return Ok(());
                }
            }
            Received::Stop => return watch.stop(ended, TERM_GRACE),
            Received::HostGone => return watch.stop(ended, Duration::ZERO),
        }
    }
}

struct Watch<'a> {
    control: &'a OwnedFd,
    observer: Option<Observer>,
    command: Pid,
    is_first: bool,
    /// Processes besides the command that were reaped here.
    reaped: u32,
    /// Whether the command's end was reported to the host.
    reported: bool,
}

enum Received {
    Nothing,
    ChildEnded,
    Stop,
    HostGone,
}

impl Watch<'_> {
    /// Reaps ended children. Returns whether none is left.
    fn reap(&mut self) -> Result<bool> {
        let (status, alone) = self.wait()?;
        if let Some(status) = status {
            self.report(status, !alone);
            self.reported = true;
            // Processes that ended before or with the command do not count as left behind.
            self.reaped = 0;
        } else if alone && self.reported {
            self.send(GONE, &0_u32.to_le_bytes());
        }
        Ok(alone)
    }

    /// Reaps ended children. Returns the command's status, if it is among them, and whether none is left.
    fn wait(&mut self) -> Result<(Option<i32>, bool)> {
        let mut status = None;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((process, how))) if process == self.command => status = Some(how.as_raw()),
                Ok(Some(_)) => self.reaped += 1,
                Ok(None) => return Ok((status, false)),
                Err(Errno::INTR) => {}
                Err(Errno::CHILD) => return Ok((status, true)),
                Err(error) => return Err(error).context("cannot wait for the command"),
            }
        }
    }

    fn report(&self, status: i32, left: bool) {
        let ended = ExitReport { status, left, peak: peak_of_children() };
        self.send(ENDED, &ended.encode());
    }

    /// Sends a message; the host may be gone, so errors are ignored.
    fn send(&self, kind: u8, body: &[u8]) {
        let _ = wire::send(self.control, kind, body, &[] as &[OwnedFd]);
    }

    fn receive(&mut self, ended: &OwnedFd, limit: Option<Duration>) -> Result<Received> {
        let own = [self.control, ended].map(|source| PollFd::new(source, PollFlags::IN));
        let observed = self.observer.iter().flat_map(Observer::sources);
        let mut events: Vec<PollFd<'_>> = own.into_iter().chain(observed).collect();
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut events, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for what happens"),
        }
        let events: Vec<PollFlags> = events.iter().map(PollFd::revents).collect();
        let Some(([control, signals], observed)) = events.split_first_chunk() else {
            return Ok(Received::Nothing);
        };
        if self.observer.as_mut().is_some_and(|observer| !observer.happened(observed, self.control)) {
            self.observer = None;
        }
        let [control, signals] = [control, signals].map(|events| !events.is_empty());
        if signals {
            // `reap` finds out which child ended.
            let _ = rustix::io::read(ended, &mut [0; 1024]);
        }
        let by_signal = if signals { Received::ChildEnded } else { Received::Nothing };
        if !control {
            return Ok(by_signal);
        }
        Ok(match wire::receive(self.control) {
            Ok(Some(message)) if message.kind == STOP => Received::Stop,
            Ok(Some(_)) => by_signal,
            Ok(None) | Err(_) => Received::HostGone,
        })
    }

    /// Waits until the host closes the connection: tearing down namespaces takes longer than a command like
    /// `true`, and the host would wait for it.
    fn linger(&mut self, ended: &OwnedFd) {
        let started = Instant::now();
        while started.elapsed() < LINGER {
            if matches!(self.receive(ended, Some(LINGER)), Err(_) | Ok(Received::HostGone)) {
                return;
            }
        }
    }

    /// Ends every process: SIGTERM, a grace period, SIGKILL until none is left.
    fn stop(&mut self, ended: &OwnedFd, grace: Duration) -> Result<()> {
        let started = Instant::now();
        if !grace.is_zero() {
            self.signal(Signal::TERM);
        }
        let mut grace = grace;
        while started.elapsed() < grace + KILL_BOUND {
            let (status, alone) = self.wait()?;
            if let Some(status) = status {
                self.report(status, true);
            }
            if alone {
                break;
            }
            if started.elapsed() >= grace {
                self.signal(Signal::KILL);
            }
            if matches!(self.receive(ended, Some(ROUND))?, Received::HostGone) {
                grace = Duration::ZERO;
            }
        }
        self.send(GONE, &self.reaped.to_le_bytes());
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        if self.is_first {
            // Signals every process in this namespace except the caller. An error means that there is none.
            let _ = sys::signal_everybody(signal);
            return;
        }
        // Children of an ended process are reparented to this one, so they come next. A scan for all
        // descendants takes longer than a process needs to fork and end.
        if signal == Signal::KILL
            && let Ok(children) = fs::read_to_string(CHILDREN)
        {
            let children =
                children.split_whitespace().filter_map(|number| Pid::from_raw(number.parse().ok()?));
            for child in children {
                // It may have ended; its id is not reused until it is reaped here.
                let _ = kill_process(child, signal);
            }
            return;
        }
        for (process, parent) in descendants(rustix::process::getpid()) {
            signal_child(process, parent, signal);
        }
    }
}

/// The kernel's list of this process's children; not every kernel has it.
const CHILDREN: &str = "/proc/thread-self/children";

/// Signals a process if it is still a child of `expected`: its id may have been reused.
fn signal_child(process: Pid, expected: i32, signal: Signal) {
    let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else { return };
    if parent_of(process) == Some(expected) {
        // An error means that it has ended.
        let _ = pidfd_send_signal(handle, signal);
    }
}

/// Returns the descendants of `ancestor`, including orphans, which it adopts.
fn descendants(ancestor: Pid) -> Vec<(Pid, i32)> {
    let mut found = Vec::new();
    let mut others: Vec<(Pid, i32)> = parents().take(MAX_FOUND).collect();
    let mut above = BTreeSet::from([ancestor.as_raw_nonzero().get()]);
    loop {
        let children: Vec<_> = others.extract_if(.., |(_, parent)| above.contains(parent)).collect();
        if children.is_empty() {
            return found;
        }
        above = children.iter().map(|(process, _)| process.as_raw_nonzero().get()).collect();
        found.extend(children);
    }
}

/// Returns every visible process with its parent.
fn parents() -> impl Iterator<Item = (Pid, i32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        Some((pid, parent_of(pid)?))
    })
}

fn parent_of(process: Pid) -> Option<i32> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    parent(&String::from_utf8_lossy(&stat))
}

/// Returns the parent in a line of `/proc/PID/stat`: the second field after the name, which is in parentheses
/// and may contain any characters.
fn parent(stat: &str) -> Option<i32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_command_may_hold_anything() {
        assert_eq!(parent("7 (a) S 1 (x y)\n) Z 3 4 5 0 -1"), Some(3));
        assert_eq!(parent("7 (short) S"), None);
    }

    #[test]
    fn this_process_is_in_the_table() {
        let own = rustix::process::getpid();
        assert!(parents().any(|(process, _)| process == own));
        assert!(descendants(own).iter().all(|(process, _)| *process != own));
    }
}
