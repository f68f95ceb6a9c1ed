//! What travels with a call to another machine: who made it, and what it is a part of. It gives no right.

use haft_core::tool::{Context, Session};
use haft_core::trace::TraceParent;
use haft_nats::{About, Passenger};

/// The keys of W3C Trace Context.
const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

/// The caller's name, which the worker's journal notes, and the trace's context, which its telemetry goes on with.
pub(super) struct CallerAndTrace;

impl Passenger for CallerAndTrace {
    fn outgoing(&self, context: &Context<'_>) -> About {
        let mut about = About { caller: context.caller.name().map(str::to_owned), ..About::default() };
        if let Some(parent) = context.caller.trace().parent() {
            about.metadata.insert(PARENT.into(), parent.to_string());
            about.metadata.extend(parent.state.as_deref().map(|state| (STATE.into(), state.into())));
        }
        about
    }

    fn incoming(&self, session: Session, about: About) -> Session {
        let said = |key| about.metadata.get(key).map(String::as_str);
        let trace = session.trace.within(|| TraceParent::parse(said(PARENT)?, said(STATE)));
        Session { trace, caller: about.caller.map(Into::into), ..session }
    }
}
