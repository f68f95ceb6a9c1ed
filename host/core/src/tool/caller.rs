//! The caller of a tool, as far as the tool may know it: an agent that is a tool makes its own calls with its
//! caller's approvals, journal and redactor.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{Client, Context, Elicitor, Ledger, Lineage, Notes, Session, Whole};
use crate::event::{Event, Events};
use crate::grant::Grant;
use crate::limit::Limits;
use crate::trace::Trace;
use crate::undo::Keeper;

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

    /// Returns the agents that the call passed through.
    pub fn lineage(&self) -> &'a Lineage {
        &self.session.lineage
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
