//! Everything that one child has started, found and stopped without its help. It refuses to
//! take a process for a relative on its number alone: numbers are used again.
//!
//! A process belongs to the tree when it is in the child's group or session, carries the child's
//! mark in its environment, or descends from one that does. The mark finds what has left group
//! and session and lost its parent; only what also threw its environment away is not found.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::time::{Instant, sleep};

/// The environment variable that marks the processes of one call. Its value is the marks of all
/// calls around it, outermost first, so that a haft run by a tool of another haft is found too.
pub(super) const MARK: &str = "HAFT_CALL";

/// From TERM to KILL: enough to remove a lock file, too little to be waited for.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// How long KILL is repeated. Only what forks faster than it is killed needs more than once, and
/// only what the kernel cannot kill (uninterruptible, another user's) is still there afterwards.
const KILL_BOUND: Duration = Duration::from_secs(2);
/// Between two looks at the process table, each of which takes a few milliseconds.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Rounds of KILL in a drop, which blocks its thread: a tenth of a second at most.
const DROP_ROUNDS: usize = 10;
/// What is read of an environment; the kernel starts no process with more (a quarter of an 8 MiB stack).
const MAX_ENVIRONMENT: u64 = 2 << 20;

/// The processes of one call. Dropping it kills what is left of them.
#[derive(Debug)]
pub(super) struct Tree {
    kin: Kin,
    over: bool,
}

/// By what a relative is recognised.
#[derive(Clone, Debug)]
struct Kin {
    root: Pid,
    mark: String,
    /// When the root was started, in clock ticks since boot: nothing older is a relative.
    born: u64,
}

impl Tree {
    /// The tree below `root`, a child that has not been reaped; `mark` is the value of [`MARK`]
    /// that it was started with.
    pub(super) fn new(root: Pid, mark: String) -> Self {
        let born = Process::read(root).map_or(0, |process| process.born);
        Self { kin: Kin { root, mark, born }, over: false }
    }

    /// Stops all of it, TERM first and KILL for what is left after a grace. The root must not
    /// have been reaped. Returns how many processes there were.
    pub(super) async fn stop(&mut self) -> usize {
        let mut found = self.kin.look(None).await;
        if found > 0 {
            // What has closed its pipes is about to end by itself.
            sleep(LOOK_INTERVAL).await;
            found = self.kin.look(Some(Signal::TERM)).await;
        }
        let started = Instant::now();
        let mut left = found;
        while left > 0 && started.elapsed() < TERM_GRACE + KILL_BOUND {
            sleep(LOOK_INTERVAL).await;
            let signal = (started.elapsed() >= TERM_GRACE).then_some(Signal::KILL);
            left = self.kin.look(signal).await;
        }
        // Also where there is no process table to look at.
        self.kin.signal_group(Signal::KILL);
        self.over = true;
        found
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // Nobody waits any more, so there is no grace to give: this thread is in a hurry, and
        // the program may be on its way out.
        for _ in 0..DROP_ROUNDS {
            if self.kin.signal(Signal::KILL) == 0 {
                break;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}

impl Kin {
    /// Counts the living and signals them, away from the threads that serve other calls.
    async fn look(&self, signal: Option<Signal>) -> usize {
        let kin = self.clone();
        let look = move || signal.map_or_else(|| kin.living().len(), |signal| kin.signal(signal));
        tokio::task::spawn_blocking(look).await.unwrap_or(0)
    }

    /// Signals all that live; returns how many did.
    fn signal(&self, signal: Signal) -> usize {
        let living = self.living();
        self.signal_group(signal);
        for process in living.iter().filter(|process| process.group != self.root.as_raw_pid()) {
            process.signal(signal);
        }
        living.len()
    }

    /// At once for the whole group, so that none of it forks out of the signal's way.
    fn signal_group(&self, signal: Signal) {
        // Failing means that the group is empty.
        let _ = kill_process_group(self.root, signal);
    }

    fn living(&self) -> Vec<Process> {
        let young = processes().filter(|process| process.born >= self.born && !process.is_dead());
        let (mut found, mut others): (Vec<_>, Vec<_>) = young.partition(|process| self.is_kin(process));
        let mut kin: BTreeSet<i32> = found.iter().map(|process| process.pid.as_raw_pid()).collect();
        loop {
            let children: Vec<_> = others.extract_if(.., |process| kin.contains(&process.parent)).collect();
            if children.is_empty() {
                return found;
            }
            kin.extend(children.iter().map(|process| process.pid.as_raw_pid()));
            found.extend(children);
        }
    }

    fn is_kin(&self, process: &Process) -> bool {
        let root = self.root.as_raw_pid();
        [process.pid.as_raw_pid(), process.group, process.session].contains(&root) || self.is_marked(process)
    }

    fn is_marked(&self, process: &Process) -> bool {
        let mut environment = Vec::new();
        let path = format!("/proc/{}/environ", process.pid);
        let Ok(file) = fs::File::open(path) else { return false };
        if file.take(MAX_ENVIRONMENT).read_to_end(&mut environment).is_err() {
            return false;
        }
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| {
            let value = variable.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            value.is_some_and(|value| value.starts_with(self.mark.as_bytes()))
        })
    }
}

/// What the process table says of one process.
#[derive(Debug)]
struct Process {
    pid: Pid,
    state: char,
    parent: i32,
    group: i32,
    session: i32,
    threads: u32,
    born: u64,
}

impl Process {
    fn read(pid: Pid) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(&stat))
    }

    /// Reads a line of `proc_pid_stat(5)`. The second field, the command's name in parentheses,
    /// may hold anything, parentheses included.
    fn parse(pid: Pid, stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        Some(Self {
            pid,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            threads: fields.get(17)?.parse().ok()?,
            born: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether only its exit status is left. A process whose first thread has ended and others
    /// have not shows the same state.
    fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }

    /// Signals this process and none that got its number since.
    fn signal(&self, signal: Signal) {
        let Ok(handle) = pidfd_open(self.pid, PidfdFlags::empty()) else { return };
        if Self::read(self.pid).is_some_and(|now| now.born == self.born) {
            // Failing means that it is gone or another user's.
            let _ = pidfd_send_signal(handle, signal);
        }
    }
}

fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        Process::read(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(raw: i32) -> Pid {
        Pid::from_raw(raw).unwrap()
    }

    #[test]
    fn the_name_of_a_command_may_hold_anything() {
        let stat = "7 (a) S 1 (x y)\n) Z 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 2 0 99 0 0";
        let process = Process::parse(pid(7), stat).unwrap();
        assert_eq!((process.state, process.parent, process.group, process.session), ('Z', 3, 4, 5));
        assert_eq!((process.threads, process.born), (2, 99));
        assert!(!process.is_dead());
        assert!(Process::parse(pid(7), "7 (short) S 1").is_none());
    }

    #[test]
    fn this_process_is_in_the_table() {
        let own = rustix::process::getpid();
        assert!(processes().any(|process| process.pid == own && !process.is_dead()));
    }
}
