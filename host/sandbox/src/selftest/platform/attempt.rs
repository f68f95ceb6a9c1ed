//! The list of escape attempts, in order. A row has the promise, the attempt and the check of its result; their
//! bodies are in other files.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::fixture::{self, Fixture};
use super::tried::{Brief, Tried};
use super::{files, hosts, processes, system};
use crate::confine::Layers;
use crate::selftest::Outcome;

/// An escape attempt.
pub(super) struct Attempt {
    pub(super) name: &'static str,
    /// The promise that it attacks.
    pub(super) promise: &'static str,
    /// Reports whether these layers are known not to prevent it.
    pub(super) gap: fn(Layers) -> bool,
    /// Makes the attempt. Called in the child.
    pub(super) act: fn(&Brief) -> Tried,
    /// Returns the evidence of its success. Called in the host, afterwards.
    pub(super) evidence: fn(&Fixture) -> Option<String>,
}

const FILES: &str = "files outside the granted directories do not change";
const HIDDEN: &str = "haft's own files are blocked for tools";
const FIXED: &str = "program.toml is not changed by the tools that it declares";
const RIGHTS: &str = "a process gains no rights, and leaves none behind";
const HAFT: &str = "haft and other processes cannot be read, controlled or ended";
const SERVICES: &str = "services and terminals of this machine are not reachable";
const NOTHING_MORE: &str = "a process inherits nothing from haft";
const HOSTS: &str = "a process with single hosts reaches no other host";
const END: &str = "no process outlives its call";

/// The attempts in order: those that may disturb others come last.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "make a file outside",
        promise: FILES,
        gap: never,
        act: files::make,
        evidence: fixture::made,
    },
    Attempt {
        name: "change a file outside",
        promise: FILES,
        gap: never,
        act: files::change,
        evidence: fixture::changed,
    },
    Attempt {
        name: "empty a file outside",
        promise: FILES,
        gap: never,
        act: files::empty,
        evidence: fixture::emptied,
    },
    Attempt {
        name: "remove a file outside",
        promise: FILES,
        gap: never,
        act: files::remove,
        evidence: fixture::removed,
    },
    Attempt {
        name: "change a file outside through a link",
        promise: FILES,
        gap: never,
        act: files::through_links,
        evidence: fixture::changed_through_a_link,
    },
    Attempt {
        name: "change the mode of a file outside",
        promise: FILES,
        gap: without_mounts,
        act: files::mode,
        evidence: fixture::mode_changed,
    },
    Attempt {
        name: "change the time of a file outside",
        promise: FILES,
        gap: without_mounts,
        act: files::time,
        evidence: fixture::time_changed,
    },
    Attempt {
        name: "label a file outside",
        promise: FILES,
        gap: never,
        act: files::label,
        evidence: fixture::labelled,
    },
    Attempt {
        name: "read a hidden file",
        promise: HIDDEN,
        gap: never,
        act: files::read_hidden,
        evidence: unseen,
    },
    Attempt {
        name: "change a hidden file",
        promise: HIDDEN,
        gap: never,
        act: files::change_hidden,
        evidence: fixture::hidden_changed,
    },
    Attempt {
        name: "overwrite a protected file in the workspace",
        promise: FIXED,
        gap: without_mounts,
        act: files::change_fixed,
        evidence: fixture::fixed_changed,
    },
    Attempt {
        name: "read a disk past its files",
        promise: HIDDEN,
        gap: never,
        act: files::disk,
        evidence: unseen,
    },
    Attempt {
        name: "leave a set-user-ID program behind",
        promise: RIGHTS,
        gap: never,
        act: files::set_user_id,
        evidence: fixture::set_user_id,
    },
    Attempt { name: "gain rights", promise: RIGHTS, gap: never, act: system::rights, evidence: unseen },
    Attempt { name: "mount something", promise: RIGHTS, gap: never, act: system::mount, evidence: unseen },
    Attempt {
        name: "enter namespaces",
        promise: RIGHTS,
        gap: never,
        act: system::namespaces,
        evidence: unseen,
    },
    Attempt {
        name: "use kernel interfaces that tools do not need",
        promise: RIGHTS,
        gap: without_filter,
        act: system::interfaces,
        evidence: unseen,
    },
    Attempt {
        name: "see haft's process",
        promise: HAFT,
        gap: without_mounts,
        act: processes::see,
        evidence: unseen,
    },
    Attempt {
        name: "signal haft",
        promise: HAFT,
        gap: without_scope,
        act: processes::signal,
        evidence: unseen,
    },
    Attempt {
        name: "read haft's environment",
        promise: HAFT,
        gap: never,
        act: processes::environment,
        evidence: unseen,
    },
    Attempt {
        name: "read haft's memory",
        promise: HAFT,
        gap: never,
        act: processes::memory,
        evidence: unseen,
    },
    Attempt { name: "trace haft", promise: HAFT, gap: never, act: processes::trace, evidence: unseen },
    Attempt {
        name: "connect to a socket in the file system",
        promise: SERVICES,
        gap: without_filter,
        act: system::connect_by_path,
        evidence: fixture::connected_by_path,
    },
    Attempt {
        name: "connect to an abstract socket",
        promise: SERVICES,
        gap: without_filter,
        act: system::connect_by_name,
        evidence: fixture::connected_by_name,
    },
    Attempt {
        name: "write to a terminal",
        promise: SERVICES,
        gap: never,
        act: system::write_to_terminal,
        evidence: fixture::terminal_written,
    },
    Attempt {
        name: "type into a terminal",
        promise: SERVICES,
        gap: never,
        act: system::type_into_terminal,
        evidence: fixture::terminal_typed,
    },
    Attempt {
        name: "use a descriptor of haft's",
        promise: NOTHING_MORE,
        gap: never,
        act: processes::descriptors,
        evidence: unseen,
    },
    Attempt {
        name: "see haft's variables",
        promise: NOTHING_MORE,
        gap: never,
        act: processes::variables,
        evidence: unseen,
    },
    Attempt {
        name: "outlive the call",
        promise: END,
        gap: never,
        act: processes::outlive,
        evidence: fixture::outlived,
    },
];

/// The attempts of a process with single hosts, in order.
pub(super) const ATTEMPTS_ON_HOSTS: &[Attempt] = &[
    Attempt {
        name: "connect past the granted hosts",
        promise: HOSTS,
        gap: never,
        act: hosts::past,
        evidence: fixture::reached,
    },
    Attempt {
        name: "send past the granted hosts without a connection",
        promise: HOSTS,
        gap: never,
        act: hosts::unconnected,
        evidence: fixture::reached,
    },
    Attempt {
        name: "lead a granted connection elsewhere",
        promise: HOSTS,
        gap: never,
        act: hosts::led_elsewhere,
        evidence: fixture::reached,
    },
    Attempt {
        name: "open a port of the machine",
        promise: HOSTS,
        gap: never,
        act: hosts::opened,
        evidence: unseen,
    },
];

fn unseen(_: &Fixture) -> Option<String> {
    None
}

fn never(_: Layers) -> bool {
    false
}

fn without_mounts(layers: Layers) -> bool {
    !layers.namespaces
}

fn without_scope(layers: Layers) -> bool {
    !layers.namespaces && layers.landlock < Some(Layers::SIGNALS)
}

fn without_filter(layers: Layers) -> bool {
    !layers.seccomp
}

// The escape attempts: this program, started in the sandbox like any command. It makes the attempts, reports
// the results, and does no harm if one succeeds.

/// The only argument of the process, which identifies it.
pub(super) const VERB: &str = "__escape";

/// Limit on the bytes of a brief, which has some hundreds.
const MAX_BRIEF: u64 = 64 << 10;
/// The exit code for a wrong invocation.
const USAGE: u8 = 2;

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
    std::fs::write(brief.workspace.join(fixture::ENTERED), "")?;
    for attempt in if brief.has_hosts { ATTEMPTS_ON_HOSTS } else { ATTEMPTS } {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attempt_has_a_name_of_its_own() {
        let all: Vec<_> = ATTEMPTS.iter().chain(ATTEMPTS_ON_HOSTS).map(|attempt| attempt.name).collect();
        for (index, name) in all.iter().enumerate() {
            assert!(!all[..index].contains(name), "{name}");
        }
    }
}
