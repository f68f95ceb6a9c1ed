//! The list of escape attempts, in order. A row has the promise, the attempt and the check of its result; their
//! bodies are in other files.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::fixture::{self, Fixture};
use super::tried::Brief;
use super::{files, hosts, processes, system};
use crate::confine::Layers;
use crate::selftest::Outcome;

pub(super) struct Attempt {
    pub(super) name: &'static str,
    pub(super) promise: &'static str,
    /// Reports whether these layers are known not to prevent it.
    pub(super) gap: fn(Layers) -> bool,
    /// Makes the attempt. Called in the child.
    pub(super) act: fn(&Brief) -> Outcome,
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

const fn attempt(
    name: &'static str,
    promise: &'static str,
    gap: fn(Layers) -> bool,
    act: fn(&Brief) -> Outcome,
    evidence: fn(&Fixture) -> Option<String>,
) -> Attempt {
    Attempt { name, promise, gap, act, evidence }
}

/// The attempts in order: those that may disturb others come last.
pub(super) const ATTEMPTS: &[Attempt] = &[
    attempt("make a file outside", FILES, never, files::make, fixture::made),
    attempt("change a file outside", FILES, never, files::change, |it| {
        fixture::changed(it, fixture::CHANGED)
    }),
    attempt("empty a file outside", FILES, never, files::empty, |it| fixture::changed(it, fixture::EMPTIED)),
    attempt("remove a file outside", FILES, never, files::remove, |it| {
        fixture::changed(it, fixture::REMOVED)
    }),
    attempt(
        "change a file outside through a link",
        FILES,
        never,
        files::through_links,
        fixture::changed_through_a_link,
    ),
    attempt("change the mode of a file outside", FILES, without_mounts, files::mode, fixture::mode_changed),
    attempt("change the time of a file outside", FILES, without_mounts, files::time, fixture::time_changed),
    attempt("label a file outside", FILES, never, files::label, fixture::labelled),
    attempt("read a hidden file", HIDDEN, never, files::read_hidden, unseen),
    attempt("change a hidden file", HIDDEN, never, files::change_hidden, fixture::hidden_changed),
    attempt(
        "overwrite a protected file in the workspace",
        FIXED,
        without_mounts,
        files::change_fixed,
        fixture::fixed_changed,
    ),
    attempt("read a disk past its files", HIDDEN, never, files::disk, unseen),
    attempt("leave a set-user-ID program behind", RIGHTS, never, files::set_user_id, fixture::set_user_id),
    attempt("gain rights", RIGHTS, never, system::rights, unseen),
    attempt("mount something", RIGHTS, never, system::mount, unseen),
    attempt("enter namespaces", RIGHTS, never, system::namespaces, unseen),
    attempt(
        "use kernel interfaces that tools do not need",
        RIGHTS,
        without_filter,
        system::interfaces,
        unseen,
    ),
    attempt("see haft's process", HAFT, without_mounts, processes::see, unseen),
    attempt("signal haft", HAFT, without_scope, processes::signal, unseen),
    attempt("read haft's environment", HAFT, never, processes::environment, unseen),
    attempt("read haft's memory", HAFT, never, processes::memory, unseen),
    attempt("trace haft", HAFT, never, processes::trace, unseen),
    attempt(
        "connect to a socket in the file system",
        SERVICES,
        without_filter,
        system::connect_by_path,
        fixture::connected_by_path,
    ),
    attempt(
        "connect to an abstract socket",
        SERVICES,
        without_filter,
        system::connect_by_name,
        fixture::connected_by_name,
    ),
    attempt("write to a terminal", SERVICES, never, system::write_to_terminal, fixture::terminal_written),
    attempt("type into a terminal", SERVICES, never, system::type_into_terminal, fixture::terminal_typed),
    attempt("use a descriptor of haft's", NOTHING_MORE, never, processes::descriptors, unseen),
    attempt("see haft's variables", NOTHING_MORE, never, processes::variables, unseen),
    attempt("outlive the call", END, never, processes::outlive, fixture::outlived),
];

/// The attempts of a process with single hosts, in order.
pub(super) const ATTEMPTS_ON_HOSTS: &[Attempt] = &[
    attempt("connect past the granted hosts", HOSTS, never, hosts::past, fixture::reached),
    attempt(
        "send past the granted hosts without a connection",
        HOSTS,
        never,
        hosts::unconnected,
        fixture::reached,
    ),
    attempt("lead a granted connection elsewhere", HOSTS, never, hosts::led_elsewhere, fixture::reached),
    attempt("open a port of the machine", HOSTS, never, hosts::opened, unseen),
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
        let report = Answer { attempt: attempt.name.to_owned(), outcome: (attempt.act)(brief) };
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
