//! The one who tries to get out: this program, started in the sandbox as any command is. It does
//! what it can and says how far it came. It refuses to do harm where it comes through.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::Outcome;
use super::attempt::ATTEMPTS;

/// What it is told to be by: the only word of its command line.
pub(super) const VERB: &str = "__escape";

/// Bytes of a brief; one has some hundreds.
const MAX_BRIEF: u64 = 64 << 10;
/// Ways through that are named where there are many.
const MAX_WAYS: usize = 3;
/// How a program says that it was called in a way that makes no sense.
const USAGE: u8 = 2;

/// Where everything is that is attacked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Brief {
    /// The only directory that may be written; it is the working directory.
    pub(super) workspace: PathBuf,
    /// A file in it, in a directory of its own, that may not be written.
    pub(super) fixed: PathBuf,
    /// A directory that may be read.
    pub(super) outside: PathBuf,
    /// A file that may not even be read.
    pub(super) hidden: PathBuf,
    /// The host's number outside every namespace of the sandbox.
    pub(super) host: i32,
    /// Where in the host's memory something lies, and how many bytes.
    pub(super) memory: (u64, usize),
    /// A socket on which the host listens, if there is one.
    pub(super) socket: Option<PathBuf>,
    /// The name of another, which is no file.
    pub(super) name: String,
    /// A terminal of the host's, if there is one.
    pub(super) terminal: Option<PathBuf>,
    /// Variables that may be seen.
    pub(super) variables: Vec<String>,
}

/// What it says of one attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) attempt: String,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

/// How an attempt went.
pub(super) enum Tried {
    /// It came through, and how.
    Out(String),
    /// It was stopped by this.
    Held(String),
    /// There is nothing here to try it on.
    Unable(String),
}

impl Tried {
    /// It came through if this succeeded.
    pub(super) fn by(what: &str, result: io::Result<()>) -> Self {
        match result {
            Ok(()) => Self::Out(what.to_owned()),
            Err(error) => Self::Held(error.to_string()),
        }
    }

    /// It came through if any of these succeeded. All are tried.
    pub(super) fn by_any<What: Into<String>>(ways: impl IntoIterator<Item = (What, io::Result<()>)>) -> Self {
        let (mut out, mut held) = (Vec::new(), None);
        for (what, result) in ways {
            match result {
                Ok(()) => out.push(what.into()),
                Err(error) => held = Some(error.to_string()),
            }
        }
        match held {
            _ if !out.is_empty() => Self::Out(joined(&out)),
            Some(held) => Self::Held(held),
            None => Self::Unable("there is nothing to try it on".to_owned()),
        }
    }

    fn outcome(self) -> Outcome {
        match self {
            Self::Out(how) => Outcome::Escaped(how),
            Self::Held(why) => Outcome::Held(why),
            Self::Unable(why) => Outcome::Untried(why),
        }
    }
}

/// The first of them, and how many more there are.
fn joined(ways: &[String]) -> String {
    let first = ways.iter().take(MAX_WAYS).cloned().collect::<Vec<_>>().join(", ");
    match ways.len().saturating_sub(MAX_WAYS) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
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
    std::fs::write(brief.workspace.join(crate::selftest::fixture::ENTERED), "")?;
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
