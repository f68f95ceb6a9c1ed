//! The values that one caller attaches to all of its calls: identity, approvals, records and limits. Contains
//! no tool and runs nothing.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;

use super::approval::Approvals;
use super::{Meter, Notes, Widening};
use crate::call::ToolCall;
use crate::event::Events;
use crate::journal::Journal;
use crate::secret::Redactor;
use crate::sync::Lock;
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

/// Where a call is written down right before its tool runs: found, checked and, where a person had to approve,
/// approved. Nowhere by default. Clones write to the same place.
#[derive(Clone, Default)]
pub struct Ledger(Option<Arc<Enter>>);

type Enter = dyn Fn(&ToolCall) -> io::Result<()> + Send + Sync;

impl Ledger {
    /// Enters every call with `enter`. A call that cannot be entered does not run.
    pub fn to(enter: impl Fn(&ToolCall) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(enter)))
    }

    /// Writes down that `call` runs from now on.
    pub fn enter(&self, call: &ToolCall) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |enter| enter(call))
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ledger").field(&self.0.is_some()).finish()
    }
}

/// The agents that a call came through, the one that makes it last; none for calls of a person, a client, or the agent
/// that a person talks to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    agents: Vec<String>,
    /// The journal's id of the call that the last one answers.
    parent: Option<String>,
}

impl Lineage {
    /// How many agents the call came through.
    pub fn depth(&self) -> usize {
        self.agents.len()
    }

    /// All of them as one text, such as `reviewer/searcher`; `None` where there is none.
    pub fn path(&self) -> Option<String> {
        (!self.agents.is_empty()).then(|| self.agents.join("/"))
    }

    /// The journal's id of the call that the last agent answers; `None` also where no journal is kept.
    pub fn parent(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    /// That of the calls of `agent`, which answers the call `parent` of the journal.
    #[must_use]
    pub fn within(&self, agent: &str, parent: Option<&str>) -> Self {
        let mut agents = self.agents.clone();
        agents.push(agent.to_owned());
        Self { agents, parent: parent.map(str::to_owned) }
    }
}

/// Where a tool leaves the whole of what it had to shorten, for a caller that keeps it elsewhere. Nobody wants it by
/// default. Clones are the same place; each call has its own.
#[derive(Clone, Debug, Default)]
pub struct Whole(Option<Arc<Lock<Option<String>>>>);

impl Whole {
    /// Characters: 4 million, what a build of a large program prints; of more the beginning and the end are kept.
    pub const MAX: usize = 4_000_000;

    /// A place for the whole of one answer.
    pub fn wanted() -> Self {
        Self(Some(Arc::default()))
    }

    /// How many characters a tool is to keep of what it shows `shown` of.
    pub fn room(&self, shown: usize) -> usize {
        if self.0.is_some() { Self::MAX.max(shown) } else { shown }
    }

    /// Leaves the text that `whole` makes, which had to be shortened to `answer`, where somebody wants it.
    pub fn leave(&self, answer: &str, whole: impl FnOnce() -> String) {
        let Some(place) = &self.0 else { return };
        let whole = whole();
        if whole.len() > answer.len() {
            *place.lock() = Some(whole);
        }
    }

    /// Takes what was left.
    pub fn take(&self) -> Option<String> {
        self.0.as_ref()?.lock().take()
    }
}

/// A client, as against others of the same process. The default is haft's own: the command line and its agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client(Option<Known>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Known {
    /// One with a session or connection of its own.
    Numbered(u64),
    /// One that is known by what it says of itself.
    Named(u64),
}

impl Client {
    /// The default.
    pub const HAFT: Self = Self(None);

    /// Another client than any before.
    pub fn another() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(Some(Known::Numbered(NEXT.fetch_add(1, Ordering::Relaxed))))
    }

    /// The client that calls itself `name`, the same for every request that it makes.
    pub fn named(name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(Some(Known::Named(hasher.finish())))
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
