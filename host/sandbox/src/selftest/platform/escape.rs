//! The escape attempts: this program, started in the sandbox like any command. It tries, reports how far it came, and
//! does no harm where it succeeds.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::attempt::ATTEMPTS;
use super::brief::Brief;
use crate::selftest::Outcome;

/// What it is told to be by: the only word of its command line.
pub(super) const VERB: &str = "__escape";

/// Bytes of a brief; one has some hundreds.
const MAX_BRIEF: u64 = 64 << 10;
/// How a program says that it was called in a way that makes no sense.
const USAGE: u8 = 2;

/// What it says of one attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) attempt: String,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

/// Makes the attempts if that is what this process was started for; to be asked where there is a
/// single thread.
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

/// Says of each attempt how it went before making the next: whatever ends this process, what came
/// before is known.
fn attempt_all(brief: &Brief) -> io::Result<()> {
    // What may be done has to work, or else a failure of the rest would say nothing.
    std::fs::write(brief.workspace.join(super::fixture::ENTERED), "")?;
    for attempt in ATTEMPTS {
        let answer = Answer { attempt: attempt.name.to_owned(), outcome: (attempt.act)(brief).outcome() };
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        io::stdout().lock().write_all(&line)?;
    }
    Ok(())
}

impl Brief {
    /// The host, unless its number means another process here: in a process table of its own the
    /// child and the one that watches it have low numbers.
    pub(super) fn host(&self) -> io::Result<Pid> {
        let ours = [Some(rustix::process::getpid()), rustix::process::getppid()];
        let host = Pid::from_raw(self.host).filter(|host| !ours.contains(&Some(*host)));
        host.ok_or_else(|| Errno::SRCH.into())
    }
}
