//! The values that one caller attaches to all of its calls: identity, approvals, records and limits. Contains
//! no tool and runs nothing.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::approval::Approvals;
use super::{Context, Elicitor, Meter, Notes, Widening};
use crate::call::ToolCall;
use crate::event::{Event, Events};
use crate::grant::Grant;
use crate::journal::Journal;
use crate::limit::Limits;
use crate::secret::Redactor;
use crate::sync::Lock;
use crate::trace::Trace;
use crate::undo::Keeper;

/// The values that a caller attaches to each of its calls.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Receives the events.
    pub events: Events,
    /// Cancelled when the caller gives up its calls.
    pub cancel: CancellationToken,
    /// Removes secrets from answers, events and the journal.
    pub redactor: Redactor,
    /// The journal of the calls.
    pub journal: Journal,
    /// Collects the notes about one call for the caller, on request.
    pub notes: Notes,
    /// The approvers, for tools that need the user's approval.
    pub approvals: Approvals,
    /// Whether the user is asked for a right that a call lacks.
    pub widening: Widening,
    /// Records each call before it runs.
    pub ledger: Ledger,
    /// Stores the contents of files before tools change them.
    pub keeper: Keeper,
    /// Receives the complete text of an answer that a tool shortens: for one call, or for none.
    pub whole: Whole,
    /// The client that makes the calls, if several share one process.
    pub client: Client,
    /// The name of the caller for the journal, if a server distinguishes callers. Gives no right.
    pub caller: Option<Arc<str>>,
    /// The command of haft, or the name that the client states, for the journal.
    pub via: Option<Arc<str>>,
    /// The agents that the calls pass through, if those are tools themselves.
    pub lineage: Lineage,
    /// The trace that the calls are parts of.
    pub trace: Trace,
    /// Counts the turns of the models that answer the calls.
    pub meter: Meter,
    /// The user whom an MCP server may ask during the calls, if the caller can reach one.
    pub person: Option<Arc<dyn Elicitor>>,
    /// The `_meta` that an MCP client sent with the call, without the part between the client and haft: for the
    /// server of the called tool only.
    pub meta: Option<Arc<Map<String, Value>>>,
}

/// Records a call right before its tool runs: after its check and approval. Records nothing by default. Clones write to
/// one place. A call that cannot be recorded does not run, because it would run again after a crash.
#[derive(Clone, Default)]
pub struct Ledger(Option<Arc<Enter>>);

type Enter = dyn Fn(&ToolCall) -> io::Result<()> + Send + Sync;

impl Ledger {
    /// Records every call with `enter`. A call that cannot be recorded does not run.
    pub fn to(enter: impl Fn(&ToolCall) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(enter)))
    }

    /// Records that `call` begins to run.
    pub fn enter(&self, call: &ToolCall) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |enter| enter(call))
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ledger").field(&self.0.is_some()).finish()
    }
}

/// The agents that a call passed through, ending with the caller; empty for calls of a user, a client, or the agent
/// that the user talks to. Names agents only, and grants no right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    agents: Vec<String>,
    /// The journal's id of the call that the last agent answers.
    parent: Option<String>,
}

impl Lineage {
    /// Returns the number of agents.
    pub fn depth(&self) -> usize {
        self.agents.len()
    }

    /// Returns the agents as one text, such as `reviewer/searcher`; `None` without agents.
    pub fn path(&self) -> Option<String> {
        (!self.agents.is_empty()).then(|| self.agents.join("/"))
    }

    /// Returns the journal's id of the call that the last agent answers; `None` also without a journal.
    pub fn parent(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    /// Returns the lineage of the calls of `agent`, which answers the call `parent` of the journal.
    #[must_use]
    pub fn within(&self, agent: &str, parent: Option<&str>) -> Self {
        let mut agents = self.agents.clone();
        agents.push(agent.to_owned());
        Self { agents, parent: parent.map(str::to_owned) }
    }
}

/// Receives the complete text of an answer that a tool shortens, for a caller that stores it elsewhere. Stores nothing
/// by default. Clones share one place; each call has its own.
#[derive(Clone, Debug, Default)]
pub struct Whole(Option<Arc<Lock<Option<String>>>>);

impl Whole {
    /// The maximum number of characters: 4 million, the output of the build of a large program. Of a longer text the
    /// beginning and the end are kept.
    pub const MAX: usize = 4_000_000;

    /// Creates a receiver for the complete text of one answer.
    pub fn wanted() -> Self {
        Self(Some(Arc::default()))
    }

    /// Returns the number of characters that a tool stores of a text of which it shows `shown`.
    pub fn room(&self, shown: usize) -> usize {
        if self.0.is_some() { Self::MAX.max(shown) } else { shown }
    }

    /// Stores the text that `whole` creates, which was shortened to `answer`, if the caller requests it.
    pub fn leave(&self, answer: &str, whole: impl FnOnce() -> String) {
        let Some(place) = &self.0 else { return };
        let whole = whole();
        if whole.len() > answer.len() {
            *place.lock() = Some(whole);
        }
    }

    /// Removes and returns the stored text.
    pub fn take(&self) -> Option<String> {
        self.0.as_ref()?.lock().take()
    }
}

/// Distinguishes the clients of one process; a number, and no right. The default is haft's own client: the command line
/// and its agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client(Option<Known>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Known {
    /// A client with its own session or connection.
    Numbered(u64),
    /// A client that is identified by the name that it states.
    Named(u64),
}

impl Client {
    /// The default client.
    pub const HAFT: Self = Self(None);

    /// Returns a client that differs from all earlier ones.
    pub fn another() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(Some(Known::Numbered(NEXT.fetch_add(1, Ordering::Relaxed))))
    }

    /// Returns the client with the stated name `name`: equal for all of its requests.
    pub fn named(name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(Some(Known::Named(hasher.finish())))
    }
}

// An agent that is a tool makes its own calls with its caller's approvals, journal and redactor.

/// The caller of a tool, as far as the tool may know it.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    pub(super) session: &'a Session,
    /// The journal's id of the call.
    pub(super) record: Option<&'a str>,
    /// Receives the events of the call.
    pub(super) trace: &'a Trace,
}

impl<'a> Caller<'a> {
    /// Returns the caller with `session`, of a call that is in no journal.
    pub fn new(session: &'a Session) -> Self {
        Self { session, record: None, trace: &session.trace }
    }

    /// Returns the name of the caller, if the server distinguishes callers.
    pub fn name(&self) -> Option<&'a str> {
        self.session.caller.as_deref()
    }

    /// Returns the trace that the operations of the tool are parts of.
    pub fn trace(&self) -> &'a Trace {
        self.trace
    }

    /// Stores the contents of files before the tool changes them.
    pub fn keeper(&self) -> &'a Keeper {
        &self.session.keeper
    }

    /// Returns the user whom an MCP server may ask, if the caller has one.
    pub fn person(&self) -> Option<&'a Arc<dyn Elicitor>> {
        self.session.person.as_ref()
    }

    /// Returns the metadata that an MCP client sent with the call for the server of the tool.
    pub fn meta(&self) -> Option<&'a Map<String, Value>> {
        self.session.meta.as_deref()
    }
}

impl Context<'_> {
    /// Returns the session of the calls that `agent` makes to answer `call`: with the approvals, the redactor and the
    /// journal of this caller. Its events are parts of this call's, it is cancelled with this call, and its usage
    /// counts for this caller.
    pub fn session_of_agent(&self, agent: &str, call: &str) -> Session {
        let Caller { session, record, trace } = self.caller;
        let lineage = session.lineage.within(agent, record);
        let approvals = session.approvals.of_agent(&lineage.path().unwrap_or_default());
        let (events, name, parent) = (self.events.clone(), agent.to_owned(), call.to_owned());
        let within = move |event: &Event| {
            let (agent, parent, event) = (name.clone(), parent.clone(), Box::new(event.clone()));
            events.emit(|| Event::Within { agent, parent, event });
        };
        Session {
            events: if self.events.has_listener() { Events::to(within) } else { Events::none() },
            cancel: self.cancel.child_token(),
            ledger: Ledger::default(),
            whole: Whole::default(),
            meter: session.meter.of_agent(agent),
            lineage,
            approvals,
            trace: trace.clone(),
            meta: None,
            ..session.clone()
        }
    }
}

/// The default limits, without listeners, cancellation or a journal.
#[derive(Debug, Default)]
pub struct Own {
    limits: Limits,
    events: Events,
    cancel: CancellationToken,
    notes: Notes,
    whole: Whole,
    session: Session,
}

impl Own {
    /// Sets the rights.
    pub fn context<'a>(&'a self, grant: &'a Grant) -> Context<'a> {
        let Self { limits, events, cancel, notes, whole, session } = self;
        let (client, caller, approved) = (Client::default(), Caller::new(session), false);
        Context { grant, limits, events, cancel, notes, whole, client, caller, approved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_is_kept_only_where_it_is_wanted_and_more_than_the_answer() {
        let nobody = Whole::default();
        nobody.leave("a", || panic!("nobody wants it"));
        assert_eq!((nobody.room(7), nobody.take()), (7, None));
        let wanted = Whole::wanted();
        wanted.leave("all of it", || "all of it".into());
        assert_eq!((wanted.room(7), wanted.take()), (Whole::MAX, None));
        wanted.clone().leave("a", || "abc".into());
        assert_eq!((wanted.take(), wanted.take()), (Some("abc".into()), None));
    }
}
