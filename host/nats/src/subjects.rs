//! The subjects, and the names of buckets and streams. Version 1 of the protocol.
//!
//! All subjects of a program contain its name and digest, so that only processes that agree on both communicate;
//! the permissions of the server can limit a user to some subjects.

use super::message::WorkerId;

use haft_core::call::ToolDef;
use haft_core::encoding::hex;
use serde_json::json;
use sha2::{Digest, Sha256};

/// The version of the protocol: a part of every subject, so that versions never mix.
const VERSION: &str = "1";

/// The number of words in the prefix of a program's subjects.
const BASE_WORDS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subjects {
    /// `PREFIX.1.PROGRAM.DIGEST`.
    base: String,
}

impl Subjects {
    pub(crate) fn new(prefix: &str, identity: &Identity) -> Self {
        let base = format!("{prefix}.{VERSION}.{}.{}", identity.program, identity.digest);
        Self { base }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Returns the prefix of a subject of any program.
    pub(crate) fn base_of(subject: &str) -> &str {
        let end = subject.match_indices('.').nth(BASE_WORDS - 1).map_or(subject.len(), |(at, _)| at);
        subject.get(..end).unwrap_or(subject)
    }

    /// Returns the subject on which a worker takes calls of `tool` (`*` for all its tools), addressed by `label` or
    /// by [`ANY`]. A worker has the labels whose subjects the server permits it.
    pub(crate) fn call(&self, worker: &WorkerId, tool: &str, label: &str) -> String {
        format!("{}.call.{}.{}.{tool}.{label}", self.base, worker.name, worker.instance)
    }

    /// Returns a subject without subscribers: the server itself responds to a request on it.
    pub(crate) fn nobody(&self) -> String {
        format!("{}.ask.{ANY}.{ANY}", self.base)
    }

    pub(crate) fn ask(&self, worker: &WorkerId) -> String {
        format!("{}.ask.{}.{}", self.base, worker.name, worker.instance)
    }

    pub(crate) fn beat(&self, worker: &WorkerId) -> String {
        format!("{}.beat.{}.{}", self.base, worker.name, worker.instance)
    }

    pub(crate) fn beats(&self) -> String {
        format!("{}.beat.*.*", self.base)
    }

    /// Returns the subject on which a gate asks for workers.
    pub(crate) fn hello(&self) -> String {
        format!("{}.hello", self.base)
    }
}

/// The label in subjects for tools that may run on any worker. No real label has this name.
pub(crate) const ANY: &str = "_";

/// Returns the prefix of answers to gates: the name of the answering worker, that of the gate, and a name of the
/// call follow.
pub(crate) fn answers_to_gates(prefix: &str) -> String {
    format!("{prefix}.{VERSION}.inbox")
}

/// Returns the prefix of the server's responses to a gate.
pub(crate) fn gate_inbox(prefix: &str) -> String {
    format!("_INBOX.{prefix}.gate")
}

/// Returns the prefix of the server's responses to a worker.
pub(crate) fn worker_inbox(prefix: &str, worker: &str) -> String {
    format!("_INBOX.{prefix}.worker.{worker}")
}

pub(crate) fn journal(prefix: &str) -> String {
    format!("{prefix}.{VERSION}.journal")
}

pub(crate) fn journal_of(prefix: &str, program: &str, worker: &str) -> String {
    format!("{}.{program}.{worker}", journal(prefix))
}

/// Returns the key of a call in the bucket of claims: below the name of the worker that may run it.
pub(crate) fn claim(worker: &str, id: &str) -> String {
    format!("{worker}.{id}")
}

/// Returns the subject of a piece of a payload sent to or by `worker`.
pub(crate) fn payload(prefix: &str, worker: &str, name: &str, piece: usize) -> String {
    format!("{}.{worker}.{name}.{piece}", payload_base(prefix))
}

pub(crate) fn payload_base(prefix: &str) -> String {
    format!("$O.{prefix}-payloads")
}

pub(crate) fn task(prefix: &str, name: &str) -> String {
    format!("{prefix}.{VERSION}.replica.task.{name}")
}

/// Returns the prefix of responses to replicas, including those of the server.
pub(crate) fn replica_inbox(prefix: &str) -> String {
    format!("{prefix}.{VERSION}.replica.inbox")
}

/// The subject of the server's events about closed client connections, of every account that this user may observe.
pub(crate) const DISCONNECTS: &str = "$SYS.ACCOUNT.*.DISCONNECT";

/// The number of hexadecimal digits of a digest in a subject: 128 bits.
const DIGITS: usize = 32;

/// The name of a program without a name.
pub(crate) const NAMELESS: &str = "_";

/// The identity of a program for gates and workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name, or `_`.
    pub program: String,
    /// The digest of the program's declarations and of its program.lock, in hexadecimal.
    pub digest: String,
}

impl Identity {
    /// Returns the identity of the program with this name; `parts`: its declarations and its lock.
    pub fn new(name: Option<&str>, parts: &[&[u8]]) -> Self {
        Self { program: name.unwrap_or(NAMELESS).to_owned(), digest: digest(parts) }
    }
}

/// Returns the digest of a tool's definition and of its component, if the tool is one.
pub fn definition(def: &ToolDef, component: Option<&str>) -> String {
    let ToolDef { name, title, description, parameters, hints, output } = def;
    let whole = json!([name, title, description, parameters, hints, output, component]);
    digest(&[whole.to_string().as_bytes()])
}

/// Hashes several parts, each with its length, so that different lists never give one input.
fn digest(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut digits = hex(&hasher.finalize());
    digits.truncate(DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_definitions_and_other_bytes_are_other_tools() {
        let def = ToolDef { name: "read".into(), description: "Reads.".into(), ..ToolDef::default() };
        let own = definition(&def, Some("a"));
        assert_eq!(own.len(), DIGITS);
        assert_eq!(own, definition(&def.clone(), Some("a")));
        assert_ne!(own, definition(&def, Some("b")));
        assert_ne!(own, definition(&ToolDef { description: "Deletes.".into(), ..def }, Some("a")));
        let of = |parts: &[&[u8]]| Identity::new(None, parts).digest;
        assert_ne!(of(&[b"a", b"b"]), of(&[b"ab", b""]), "where a part ends is part of it");
    }
}
