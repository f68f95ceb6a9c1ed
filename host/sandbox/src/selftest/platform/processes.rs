//! Attempts on other processes, mainly the host, and on outliving the call. An attempt that succeeds does the
//! host no harm.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, WaitOptions, kill_process, setsid, test_kill_process, waitpid};

use super::tried::Brief;
use super::{fixture, raw};
use crate::confine::sys::{self, Fork};
use crate::selftest::Outcome;

/// The lifetime of a process that outlives the call.
const LIFE: Duration = Duration::from_secs(10);

pub(super) fn see(brief: &Brief) -> Outcome {
    let seen = brief.host().and_then(|host| fs::metadata(format!("/proc/{host}/stat")));
    Outcome::by("it is in the table of processes", seen.map(drop))
}

/// Sends signal 0, which only checks the permission, and a harmless signal.
pub(super) fn signal(brief: &Brief) -> Outcome {
    let asked = brief.host().and_then(|host| Ok(test_kill_process(host)?));
    let sent = brief.host().and_then(|host| Ok(kill_process(host, Signal::URG)?));
    let limits = brief.host().and_then(raw::limits_of);
    Outcome::by_any([
        ("a signal could be sent", asked),
        ("one was sent", sent),
        ("its limits can be set", limits),
    ])
}

pub(super) fn environment(brief: &Brief) -> Outcome {
    let read = brief.host().and_then(|host| fs::read(format!("/proc/{host}/environ")));
    match read {
        Ok(text) if text.is_empty() => Outcome::Held("it is empty".to_owned()),
        read => Outcome::by("it was read", read.map(drop)),
    }
}

pub(super) fn memory(brief: &Brief) -> Outcome {
    let (address, length) = brief.memory;
    let copied = brief.host().and_then(|host| raw::memory(host, address, &mut vec![0; length]));
    let file = brief.host().and_then(|host| File::open(format!("/proc/{host}/mem")));
    let read = file.and_then(|file| file.read_exact_at(&mut vec![0; length], address));
    Outcome::by_any([("it was copied", copied.map(drop)), ("it was read", read)])
}

pub(super) fn trace(brief: &Brief) -> Outcome {
    let traced = brief.host().and_then(|host| in_a_copy(|| raw::trace(host)));
    Outcome::by("it was traced", traced)
}

/// Runs `act` in a fork of this process, and returns its result.
pub(super) fn in_a_copy(act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    const UNKNOWN: i32 = 255;
    match sys::fork()? {
        Fork::Child => {
            let code = act().map_or_else(|error| error.raw_os_error().unwrap_or(UNKNOWN), |()| 0);
            std::process::exit(code)
        }
        Fork::Parent(copy) => {
            let ended = waitpid(Some(copy), WaitOptions::empty())?;
            match ended.and_then(|(_, status)| status.exit_status()) {
                Some(0) => Ok(()),
                Some(code) if code != UNKNOWN => Err(io::Error::from_raw_os_error(code)),
                _ => Err(io::Error::other("it was ended")),
            }
        }
    }
}

/// Lists every descriptor except the standard streams and the one that reads the list.
pub(super) fn descriptors(_: &Brief) -> Outcome {
    let list = match fs::read_dir("/proc/self/fd") {
        Ok(list) => list.flatten(),
        Err(error) => return Outcome::Untried(format!("cannot list descriptors: {error}")),
    };
    let more = list.filter(|entry| !["0", "1", "2"].iter().any(|stream| entry.file_name() == *stream));
    let targets = more.filter_map(|entry| Some((entry.file_name(), entry.path().read_link().ok()?)));
    let others = targets.filter(|(_, target)| !target.ends_with("fd"));
    let others = others.map(|(name, target)| format!("{} is `{}`", name.display(), target.display()));
    found(&others.collect::<Vec<_>>(), "there are only the three streams")
}

pub(super) fn variables(brief: &Brief) -> Outcome {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let others = names.filter(|name| !brief.variables.contains(name) && !name.starts_with("LC_"));
    found(&others.collect::<Vec<_>>(), "there are only those that every command gets")
}

fn found(what: &[String], nothing: &str) -> Outcome {
    if what.is_empty() { Outcome::Held(nothing.to_owned()) } else { Outcome::Escaped(what.join(", ")) }
}

/// Leaves a process in its own session that ignores SIGTERM. It holds a lock while it runs, which the host
/// checks.
pub(super) fn outlive(brief: &Brief) -> Outcome {
    let lock = match File::create(brief.workspace.join(fixture::LOCK)) {
        Ok(lock) => lock,
        Err(error) => return Outcome::Untried(format!("cannot make a lock: {error}")),
    };
    let left = flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(Into::into);
    match left.and_then(|()| in_a_copy(leave_behind)) {
        // Only the host can see whether it is still running.
        Ok(()) => Outcome::Held("it was ended with the call".to_owned()),
        Err(error) => Outcome::Untried(format!("cannot leave a process behind: {error}")),
    }
}

fn leave_behind() -> io::Result<()> {
    raw::ignore_termination();
    setsid()?;
    if matches!(sys::fork()?, Fork::Child) {
        std::thread::sleep(LIFE);
    }
    Ok(())
}
