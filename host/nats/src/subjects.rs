//! The subjects, and the names of buckets and streams: who says what to whom. Version 1 of the protocol.
//!
//! All of a program's subjects have its name and digest in them, so that only those meet who agree on both; a user of the
//! server can be held to some of them by its permissions alone.

use super::identity::Identity;
use super::message::WorkerId;

/// The version of the protocol: it stands in every subject, so that no later one is misread.
const VERSION: &str = "1";

/// The subjects of one program.
#[derive(Clone, Debug)]
pub(crate) struct Subjects {
    prefix: String,
    /// `PREFIX.1.PROGRAM.DIGEST`.
    base: String,
}

impl Subjects {
    pub(crate) fn new(prefix: &str, identity: &Identity) -> Self {
        let base = format!("{prefix}.{VERSION}.{}.{}", identity.program, identity.digest);
        Self { prefix: prefix.to_owned(), base }
    }

    /// Where a worker takes a call of `tool`; `*` for all that it has.
    pub(crate) fn call(&self, worker: &WorkerId, tool: &str) -> String {
        format!("{}.call.{}.{}.{tool}", self.base, worker.name, worker.instance)
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

    /// Where a gate takes answers: its own name, and what stands for the call.
    pub(crate) fn inbox(&self, gate: &str) -> String {
        format!("{}.{VERSION}.inbox.{gate}", self.prefix)
    }
}

/// What the subjects of all journals begin with.
pub(crate) fn journal(prefix: &str) -> String {
    format!("{prefix}.{VERSION}.journal")
}

/// The bucket of claims.
pub(crate) fn claims(prefix: &str) -> String {
    format!("{prefix}-claims")
}

/// The bucket of what is too large for a message.
pub(crate) fn payloads(prefix: &str) -> String {
    format!("{prefix}-payloads")
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
