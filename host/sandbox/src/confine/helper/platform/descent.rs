//! The watcher: waits for the command, reports its end to the host, and ends all of its processes, also when
//! the host is gone.
//!
//! The new parent of an orphan is `launchd`, so the command's processes are identified by session and, as far
//! as it is visible, by descent. A process that leaves both is not found: [`crate::confine::Layers::verdict`]
//! reports that.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::event::kqueue::{Event, EventFilter, EventFlags, ProcessEvents, kevent, kqueue};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getsid, kill_process, waitpid};

use crate::confine::helper::{KILL_BOUND, LINGER, TERM_GRACE};
use crate::confine::sys::peak_of_children;
use crate::confine::sys::platform as sys;
use crate::confine::wire::{self, ENDED, ExitReport, GONE, STOP};

/// Interval between two checks for remaining processes.
const ROUND: Duration = Duration::from_millis(10);

/// Watches `command` and its descendants until none is left. `terminal`: it shares the session of a terminal.
pub(super) fn until_gone(control: &OwnedFd, command: Pid, terminal: bool) -> Result<()> {
    let queue = kqueue().context("cannot listen for the end of the command")?;
    let mut watch = Watch { control, queue, command, terminal, has_ended: false, killed: BTreeSet::new() };
    watch.listen(EventFilter::Read(control.as_raw_fd()))?;
    // If the process has ended already, `reap` finds it.
    let _ = watch.listen(EventFilter::Proc { pid: command, flags: ProcessEvents::EXIT });
    loop {
        if watch.reap()? && watch.members().is_empty() {
            watch.send(GONE, &0_u32.to_le_bytes());
            return watch.linger();
        }
        let round = watch.has_ended.then_some(ROUND);
        match watch.receive(round)? {
            Received::Nothing => {}
            Received::Stop => return watch.stop(TERM_GRACE),
            Received::HostGone => return watch.stop(Duration::ZERO),
        }
    }
}

struct Watch<'a> {
    control: &'a OwnedFd,
    queue: OwnedFd,
    command: Pid,
    terminal: bool,
    /// Whether the command's end was reported to the host.
    has_ended: bool,
    /// Processes besides the command that were signalled.
    killed: BTreeSet<i32>,
}

enum Received {
    Nothing,
    Stop,
    HostGone,
}

impl Watch<'_> {
    #[expect(unsafe_code, reason = "the descriptors are open for as long as the queue is")]
    fn listen(&self, filter: EventFilter) -> Result<()> {
        let change = Event::new(filter, EventFlags::ADD, std::ptr::null_mut());
        let mut none: [Event; 0] = [];
        // SAFETY: `control` outlives the queue, and a process is no descriptor.
        unsafe { kevent(&self.queue, &[change], &mut none, Some(Duration::ZERO)) }
            .context("cannot listen")?;
        Ok(())
    }

    /// Reports whether the command has ended; reports its end to the host the first time.
    fn reap(&mut self) -> Result<bool> {
        while !self.has_ended {
            match waitpid(Some(self.command), WaitOptions::NOHANG) {
                Ok(Some((_, how))) => {
                    self.has_ended = true;
                    let left = !self.members().is_empty();
                    let report = ExitReport { status: how.as_raw(), left, peak: peak_of_children() };
                    self.send(ENDED, &report.encode());
                }
                Ok(None) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot wait for the command"),
            }
        }
        Ok(true)
    }

    /// Waits for an event, for at most `limit`.
    #[expect(unsafe_code, reason = "the descriptors are open for as long as the queue is")]
    fn receive(&self, limit: Option<Duration>) -> Result<Received> {
        let mut events = Vec::with_capacity(4);
        // SAFETY: nothing is changed.
        let got = unsafe { kevent(&self.queue, &[], rustix::buffer::spare_capacity(&mut events), limit) };
        match got {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for the command"),
        }
        if !events.iter().any(|event| matches!(event.filter(), EventFilter::Read(_))) {
            return Ok(Received::Nothing);
        }
        Ok(match wire::receive(self.control) {
            Ok(Some(message)) if message.kind == STOP => Received::Stop,
            Ok(Some(_)) => Received::Nothing,
            Ok(None) | Err(_) => Received::HostGone,
        })
    }

    /// Waits until the host closes the connection.
    fn linger(&self) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < LINGER {
            if matches!(self.receive(Some(LINGER))?, Received::HostGone) {
                break;
            }
        }
        Ok(())
    }

    /// Ends every process: SIGTERM, a grace period, SIGKILL until none is left.
    fn stop(&mut self, grace: Duration) -> Result<()> {
        let (started, mut grace) = (Instant::now(), grace);
        if !grace.is_zero() {
            self.signal(Signal::TERM);
        }
        while started.elapsed() < grace + KILL_BOUND {
            if self.reap()? && self.members().is_empty() {
                break;
            }
            if started.elapsed() >= grace {
                self.signal(Signal::KILL);
            }
            if matches!(self.receive(Some(ROUND))?, Received::HostGone) {
                grace = Duration::ZERO;
            }
        }
        let killed = u32::try_from(self.killed.len()).unwrap_or(u32::MAX);
        self.send(GONE, &killed.to_le_bytes());
        Ok(())
    }

    fn signal(&mut self, signal: Signal) {
        // Not after it was waited for: its id may be reused.
        if !self.has_ended {
            let _ = kill_process(self.command, signal);
        }
        for process in self.members() {
            self.killed.insert(number(process));
            let _ = kill_process(process, signal);
        }
    }

    /// Returns the remaining processes besides the command: those of its session, and their descendants. After
    /// the command was waited for, its id may be reused, so its children are no longer included.
    fn members(&self) -> Vec<Pid> {
        let all = sys::processes();
        let is_of_session = |process: Pid| !self.terminal && getsid(Some(process)) == Ok(self.command);
        let of_session = all.iter().filter(|(process, _)| is_of_session(*process));
        let mut found: BTreeSet<i32> = of_session.map(|(process, _)| number(*process)).collect();
        if !self.has_ended {
            found.insert(number(self.command));
        }
        loop {
            let children = all.iter().filter(|(_, parent)| found.contains(parent));
            let before = found.len();
            let children: Vec<i32> = children.map(|(process, _)| number(*process)).collect();
            found.extend(children);
            if found.len() == before {
                break;
            }
        }
        let is_left = |process: &Pid| *process != self.command && found.contains(&number(*process));
        all.into_iter().map(|(process, _)| process).filter(is_left).collect()
    }

    /// Sends a message; the host may be gone, so errors are ignored.
    fn send(&self, kind: u8, body: &[u8]) {
        let _ = wire::send(self.control, kind, body, &[] as &[OwnedFd]);
    }
}

fn number(process: Pid) -> i32 {
    process.as_raw_nonzero().get()
}
