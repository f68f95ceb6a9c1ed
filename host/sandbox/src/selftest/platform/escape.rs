//! The escape attempts: this program, started in the sandbox like any command. It makes the attempts, reports
//! the results, and does no harm if one succeeds.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::attempt::ATTEMPTS;
use super::tried::Brief;
use crate::selftest::Outcome;

/// The only argument of the process, which identifies it.
pub(super) const VERB: &str = "__escape";

/// Limit on the bytes of a brief, which has some hundreds.
const MAX_BRIEF: u64 = 64 << 10;
/// The exit code for a wrong invocation.
const USAGE: u8 = 2;

/// The report of one attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) attempt: String,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

/// Makes the attempts, if this process was started for them; must be called while there is a single thread.
pub(crate) fn entry() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let is_meant = words.next().is_some_and(|word| word == VERB) && words.next().is_none();
    is_meant.then(|| match brief() {
        Ok(brief) => attempt_all(&brief).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS),
        Err(_) => ExitCode::from(USAGE),
    })
}

fn brief() -> io::Result<Brief> {
    let mut text = Vec::new();
    io::stdin().lock().take(MAX_BRIEF).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Reports each attempt before it makes the next: whatever ends this process, the results so far are known.
fn attempt_all(brief: &Brief) -> io::Result<()> {
    // A permitted write must succeed; otherwise the refusals would mean nothing.
    std::fs::write(brief.workspace.join(super::fixture::ENTERED), "")?;
    for attempt in ATTEMPTS {
        let report = Answer { attempt: attempt.name.to_owned(), outcome: (attempt.act)(brief).outcome() };
        let mut line = serde_json::to_vec(&report)?;
        line.push(b'\n');
        io::stdout().lock().write_all(&line)?;
    }
    Ok(())
}

impl Brief {
    /// Returns the host's process, unless its id belongs to another process here: in a new PID namespace the
    /// child and its watcher have low ids.
    pub(super) fn host(&self) -> io::Result<Pid> {
        let ours = [Some(rustix::process::getpid()), rustix::process::getppid()];
        let host = Pid::from_raw(self.host).filter(|host| !ours.contains(&Some(*host)));
        host.ok_or_else(|| Errno::SRCH.into())
    }
}
