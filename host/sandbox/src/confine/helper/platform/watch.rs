//! The watcher: waits for the command, tells the host how it ended, and sees to it that nothing
//! of it is left, also when the host is gone. It refuses to outlive the last process it watches.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, pidfd_send_signal, wait,
};

use super::observe::Observer;
use crate::confine::sys::peak_of_children;
use crate::confine::sys::platform as sys;
use crate::confine::wire::{self, ENDED, ExitReport, GONE, STOP};

/// From TERM to KILL: enough to remove a lock file, too little to be waited for.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// How long KILL is repeated; what the kernel cannot kill is left to it.
const KILL_BOUND: Duration = Duration::from_secs(2);
/// How long an empty watch waits to be dismissed.
const LINGER: Duration = Duration::from_secs(1);
/// Between two rounds of signals.
const ROUND: Duration = Duration::from_millis(10);
/// Processes that one look finds at most; more are found by the next.
const MAX_FOUND: usize = 10_000;

/// Watches over `command` and all that comes from it until nothing is left. `is_first`: whether
/// this is the first process of a namespace, so that it sees nothing else.
pub(super) fn until_gone(
    (control, observer): (&OwnedFd, Option<Observer>),
    ended: &OwnedFd,
    command: Pid,
    is_first: bool,
) -> Result<()> {
    let mut watch = Watch { control, observer, command, is_first, reaped: 0, reported: false };
    loop {
        if watch.reap()? {
            watch.linger(ended);
            return Ok(());
        }
        match watch.receive(ended, None)? {
            Received::Nothing => {}
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
    /// Processes besides the command that have ended here.
    reaped: u32,
    /// Whether the host knows of the command's end.
    reported: bool,
}

enum Received {
    Nothing,
    Stop,
    HostGone,
}

impl Watch<'_> {
    /// Reaps ended children. Returns whether none is left.
    fn reap(&mut self) -> Result<bool> {
        let mut status = None;
        let alone = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((process, how))) if process == self.command => status = Some(how.as_raw()),
                Ok(Some(_)) => self.reaped += 1,
                Ok(None) => break false,
                Err(Errno::INTR) => {}
                Err(Errno::CHILD) => break true,
                Err(error) => return Err(error).context("cannot wait for the command"),
            }
        };
        if let Some(status) = status {
            let ended = ExitReport { status, left: !alone, peak: peak_of_children() };
            self.send(ENDED, &ended.encode());
            self.reported = true;
            // What ended before the command, or with it, was not left behind.
            self.reaped = 0;
        } else if alone && self.reported {
            self.send(GONE, &0_u32.to_le_bytes());
        }
        Ok(alone)
    }

    /// The host may be gone; it is not waited for.
    fn send(&self, kind: u8, body: &[u8]) {
        let _ = wire::send(self.control, kind, body, &[] as &[OwnedFd]);
    }

    /// Waits until something happens, at most as long as `limit`.
    fn receive(&mut self, ended: &OwnedFd, limit: Option<Duration>) -> Result<Received> {
        let observed = self.observer.as_ref().map_or(ended.as_fd(), AsFd::as_fd);
        let mut events = [self.control.as_fd(), ended.as_fd(), observed]
            .map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN));
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs().cast_signed(),
            tv_nsec: limit.subsec_nanos().into(),
        });
        match poll(&mut events, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for what happens"),
        }
        let [control, signals, observed] = events.map(|event| event.revents());
        if observed.contains(PollFlags::IN)
            && let Some(observer) = &mut self.observer
        {
            observer.observe(self.control);
        } else if observed.contains(PollFlags::HUP) {
            // The last process that it is about has ended.
            self.observer = None;
        }
        let [control, signals] = [control, signals].map(|events| !events.is_empty());
        if signals {
            // Which child it was is asked by `reap`.
            let _ = rustix::io::read(ended, &mut [0; 1024]);
        }
        if !control {
            return Ok(Received::Nothing);
        }
        Ok(match wire::receive(self.control) {
            Ok(Some(message)) if message.kind == STOP => Received::Stop,
            Ok(Some(_)) => Received::Nothing,
            Ok(None) | Err(_) => Received::HostGone,
        })
    }

    /// Waits until the host has heard: taking namespaces down takes longer than a command like
    /// `true`, and the host would wait for the processor that does it.
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
            if self.everyone_reaped()? {
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

    /// Like [`Self::reap`], for when everything has to go: tells how the command ended if it had
    /// not yet, nothing else.
    fn everyone_reaped(&mut self) -> Result<bool> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((process, how))) if process == self.command => {
                    let ended = ExitReport { status: how.as_raw(), left: true, peak: peak_of_children() };
                    self.send(ENDED, &ended.encode());
                }
                Ok(Some(_)) => self.reaped += 1,
                Ok(None) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(Errno::CHILD) => return Ok(true),
                Err(error) => return Err(error).context("cannot wait for the command"),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if self.is_first {
            // Every process in this namespace but the caller. An error means that there is none.
            let _ = sys::signal_everybody(signal);
            return;
        }
        // Children of an ended process are reparented to this one, so they come next. Scanning for all of them takes
        // longer than a process needs to fork and end.
        if signal == Signal::KILL
            && let Ok(children) = fs::read_to_string(CHILDREN)
        {
            let children =
                children.split_whitespace().filter_map(|number| Pid::from_raw(number.parse().ok()?));
            for child in children {
                // It may have ended. Until it is reaped, here, its number is no other's.
                let _ = kill_process(child, signal);
            }
            return;
        }
        for (process, parent) in descendants(rustix::process::getpid()) {
            signal_child(process, parent, signal);
        }
    }
}

/// Where the kernel lists the children of this process; not every kernel does.
const CHILDREN: &str = "/proc/thread-self/children";

/// Signals a process if it still is the child of `expected`: its number may have gone to another.
fn signal_child(process: Pid, expected: i32, signal: Signal) {
    let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else { return };
    if parent_of(process) == Some(expected) {
        // Failing means that it is gone.
        let _ = pidfd_send_signal(handle, signal);
    }
}

/// All that come from `ancestor`. Orphans among them have become its children, since it adopts them.
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

/// Every process of this machine that can be seen, and its parent.
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

/// The parent in a line of `/proc/PID/stat`: the second field after the name, which stands in
/// brackets and may hold anything.
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
