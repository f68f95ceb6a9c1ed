//! The subjects, and the names of buckets and streams: who says what to whom. Version 1 of the protocol.
//!
//! All of a program's subjects have its name and digest in them, so that only those meet who agree on both; a user of the
//! server can be held to some of them by its permissions alone.

use super::identity::Identity;
use super::message::WorkerId;

/// The version of the protocol: it stands in every subject, so that no later one is misread.
const VERSION: &str = "1";

/// Words of what the subjects of a program begin with.
const BASE_WORDS: usize = 4;

/// The subjects of one program.
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

    /// What all of them begin with.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// What a subject of any program begins with.
    pub(crate) fn base_of(subject: &str) -> &str {
        let end = subject.match_indices('.').nth(BASE_WORDS - 1).map_or(subject.len(), |(at, _)| at);
        subject.get(..end).unwrap_or(subject)
    }

    /// Where a worker takes a call of `tool`, `*` for all that it has, that is placed by `label`, or by [`ANY`]. A worker
    /// has the labels whose subjects the server lets it hear.
    pub(crate) fn call(&self, worker: &WorkerId, tool: &str, label: &str) -> String {
        format!("{}.call.{}.{}.{tool}.{label}", self.base, worker.name, worker.instance)
    }

    /// Where nobody listens: the server itself answers what is sent there.
    pub(crate) fn nobody(&self) -> String {
        format!("{}.ask.{ANY}.{ANY}", self.base)
    }

    /// Where a worker is asked what is not a call.
    pub(crate) fn ask(&self, worker: &WorkerId) -> String {
        format!("{}.ask.{}.{}", self.base, worker.name, worker.instance)
    }

    /// Where a worker tells that it lives.
    pub(crate) fn beat(&self, worker: &WorkerId) -> String {
        format!("{}.beat.{}.{}", self.base, worker.name, worker.instance)
    }

    /// Where all workers tell it.
    pub(crate) fn beats(&self) -> String {
        format!("{}.beat.*.*", self.base)
    }

    /// Where a gate asks who is there.
    pub(crate) fn hello(&self) -> String {
        format!("{}.hello", self.base)
    }
}

/// What stands in the place of a label where a tool lives on any worker. No label is called so.
pub(crate) const ANY: &str = "_";

/// Where gates take answers: below it the name of the worker that answers, that of the gate, and what stands for the call.
pub(crate) fn answers_to_gates(prefix: &str) -> String {
    format!("{prefix}.{VERSION}.inbox")
}

/// What the subjects begin with on which the server answers a gate.
pub(crate) fn gate_inbox(prefix: &str) -> String {
    format!("_INBOX.{prefix}.gate")
}

/// The same of a worker.
pub(crate) fn worker_inbox(prefix: &str, worker: &str) -> String {
    format!("_INBOX.{prefix}.worker.{worker}")
}

/// What the subjects of all journals begin with.
pub(crate) fn journal(prefix: &str) -> String {
    format!("{prefix}.{VERSION}.journal")
}

/// Where the worker `worker` of `program` sends its journal.
pub(crate) fn journal_of(prefix: &str, program: &str, worker: &str) -> String {
    format!("{}.{program}.{worker}", journal(prefix))
}

/// The bucket of claims.
pub(crate) fn claims(prefix: &str) -> String {
    format!("{prefix}-claims")
}

/// The entry of a call in it: below the name of the worker that may run it.
pub(crate) fn claim(worker: &str, id: &str) -> String {
    format!("{worker}.{id}")
}

/// What is too large for a message: a stream with a subject for each piece.
pub(crate) fn payloads(prefix: &str) -> String {
    format!("OBJ_{prefix}-payloads")
}

/// The subject of a piece of what is sent to or by `worker`.
pub(crate) fn payload(prefix: &str, worker: &str, name: &str, piece: usize) -> String {
    format!("{}.{worker}.{name}.{piece}", payload_base(prefix))
}

/// What the subjects of all pieces begin with.
pub(crate) fn payload_base(prefix: &str) -> String {
    format!("$O.{prefix}-payloads")
}

/// The bucket with the key of all replicas.
pub(crate) fn keys(prefix: &str) -> String {
    format!("{prefix}-keys")
}

/// The bucket of approvals that were used.
pub(crate) fn approvals(prefix: &str) -> String {
    format!("{prefix}-approvals")
}

/// The bucket of tasks.
pub(crate) fn tasks(prefix: &str) -> String {
    format!("{prefix}-tasks")
}

/// The bucket of what is too large for the entry of a task.
pub(crate) fn answers(prefix: &str) -> String {
    format!("{prefix}-answers")
}

/// Where the replica is asked that runs a task.
pub(crate) fn task(prefix: &str, name: &str) -> String {
    format!("{prefix}.{VERSION}.replica.task.{name}")
}

/// What the subjects begin with on which replicas are answered, by the server too.
pub(crate) fn replica_inbox(prefix: &str) -> String {
    format!("{prefix}.{VERSION}.replica.inbox")
}

/// The stream of journals.
pub(crate) fn journal_stream(prefix: &str) -> String {
    format!("{prefix}-journal")
}

/// The subject on which the server tells that a client's connection has ended, of every account that this user may hear
/// of.
pub(crate) const DISCONNECTS: &str = "$SYS.ACCOUNT.*.DISCONNECT";
