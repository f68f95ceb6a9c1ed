//! What one caller brings to all of its calls. It holds no tool and runs nothing.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::approval::Approvals;
use super::{Client, Ledger, Lineage, Meter, Notes, Whole, Widening};
use crate::event::Events;
use crate::journal::Journal;
use crate::secret::Redactor;
use crate::trace::Trace;
use crate::undo::Keeper;

/// What a caller brings to every call it makes.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Where to tell what happens.
    pub events: Events,
    /// Cancelled when the caller wants no more answers.
    pub cancel: CancellationToken,
    /// What is left out of answers, events and the journal.
    pub redactor: Redactor,
    /// Where calls are noted down.
    pub journal: Journal,
    /// Where the notes about a call are wanted by the caller too: of one call, or of none.
    pub notes: Notes,
    /// Who is asked where a tool needs a person's approval.
    pub approvals: Approvals,
    /// Whether a person is asked for a right that a call was refused.
    pub widening: Widening,
    /// Where calls are written down before they run.
    pub ledger: Ledger,
    /// Where it is kept what files were before tools changed them.
    pub keeper: Keeper,
    /// Where tools leave the whole of answers that they shorten: for one call, or for nobody.
    pub whole: Whole,
    /// The client that makes the calls, where several share one process.
    pub client: Client,
    /// Who makes the calls, where a server tells its callers apart: a name for the journal, and no right.
    pub caller: Option<Arc<str>>,
    /// What the calls come through, for the journal: the command of haft, or a client by the name that it gives of itself.
    pub via: Option<Arc<str>>,
    /// The agents that the calls come through, where those are tools themselves.
    pub lineage: Lineage,
    /// Where the calls are told as parts of a trace.
    pub trace: Trace,
    /// Where the turns of models are counted that answer the calls.
    pub meter: Meter,
}
