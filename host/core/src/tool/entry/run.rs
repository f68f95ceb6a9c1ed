//! Runs an admitted call within its limits, and a second time if the user grants the rights that the sandbox
//! refused.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;

use super::{Entry, GRACE, PREPARATION, cancelled_and_waited};
use crate::call::ToolCall;
use crate::grant::{Grant, Right};
use crate::tool::approval::{self, Decision, Question};
use crate::tool::session::Session;
use crate::tool::watch::{Ended, Watch};
use crate::tool::{Caller, Context, Notes, ToolError};
use crate::trace::Trace;
use tokio_util::sync::CancellationToken;

impl Entry {
    /// Runs an admitted call, and again if the user grants the rights that it was refused. `approved`: whether the
    /// user was asked.
    pub(in crate::tool) async fn run(
        &self,
        call: &ToolCall,
        approved: bool,
        watch: &Watch<'_>,
        (session, trace): (&Session, &Trace),
    ) -> Ended {
        let widening = session.widening.clone().filtered(|| self.may_be_given(session));
        let given = widening.given(&self.def().name, &self.grant);
        let grant = given.as_ref().unwrap_or(&self.grant);
        let ended = self.run_with(grant, (call, approved), watch, (session, trace)).await;
        // Boxed: otherwise the future of every call would have its size.
        let wider = match &ended {
            Ended::Answered(result) if !result.is_error => None,
            _ if widening.is_possible() => Box::pin(self.wider(grant, call, watch.notes(), session)).await,
            _ => None,
        };
        match wider {
            Some(wider) => Box::pin(self.run_with(&wider, (call, approved), watch, (session, trace))).await,
            None => ended,
        }
    }

    /// Returns whether the user may give calls of this session more than the tool's grant: not for another program
    /// or agent, not in plan mode, and not if its rights are fixed before a call.
    fn may_be_given(&self, session: &Session) -> bool {
        self.bounds.is_empty()
            && session.lineage.path().is_none()
            && !self.grant.is_planning()
            && !self.has_fixed_rights()
    }

    /// Returns `grant` with the rights that the call was refused, if the user gives them.
    async fn wider(&self, grant: &Grant, call: &ToolCall, notes: &Notes, session: &Session) -> Option<Grant> {
        let name = &self.def().name;
        let rights = notes.notes().proposed;
        let wider = session.widening.widened(name, grant, &rights)?;
        let asked: Vec<String> = rights.iter().map(Right::to_string).collect();
        let subject = session.redactor.redact_owned(self.tool.subject(&call.arguments).text().to_owned());
        let written_by = session.widening.written_by(name, &asked);
        let asked = asked.join(", ");
        let again = format!("{asked} for `{name}`, and repeat the refused call: {subject}");
        let question = Question { written_by, ..approval::question_of(call, name, "Allow", &again) };
        let decision = tokio::select! {
            biased;
            () = session.cancel.cancelled() => return None,
            decision = notes.waiting(session.approvals.put(&question)) => decision,
        };
        match decision {
            Decision::Approved => notes.decision(|| format!("granted by a person: {asked}")),
            Decision::Always => {
                notes.decision(|| format!("granted by a person for this session: {asked}"));
                session.widening.give(name, &rights);
            }
            Decision::Written => {
                let written = session.widening.write(name, &rights).await;
                notes.decision(|| match written {
                    Ok(()) => format!("granted by a person and written to program.toml: {asked}"),
                    Err(why) => {
                        format!("granted by a person for this session; not written to program.toml: {why}")
                    }
                });
                session.widening.give(name, &rights);
            }
            Decision::Denied => {
                session.widening.decline(name, &rights);
                return None;
            }
            Decision::Unasked(_) => return None,
        }
        notes.forget_end();
        Some(wider)
    }

    /// Runs a call at most as long as the limits allow, and not after a cancel.
    async fn run_with(
        &self,
        grant: &Grant,
        (call, approved): (&ToolCall, bool),
        watch: &Watch<'_>,
        (session, trace): (&Session, &Trace),
    ) -> Ended {
        self.note_uncovered(call, session);
        let cancel = session.cancel.child_token();
        let (events, notes) = (watch.events(), watch.notes());
        let (limits, cancel) = (&self.limits, &cancel);
        let (whole, client) = (&session.whole, session.client);
        let caller = Caller { session, record: watch.record(), trace };
        let context = Context { grant, limits, events, cancel, notes, whole, client, caller, approved };
        if let Err(error) = self.prepare(cancel).await {
            return Ended::Failed(error);
        }
        tokio::select! {
            biased;
            answer = catch_panics(self.tool.call(call, &context)) => answer.map_or_else(Ended::Failed, Ended::Answered),
            () = cancelled_and_waited(cancel) => Ended::Failed(self.cancelled()),
            () = tokio::time::sleep(self.limits.time + GRACE) => {
                let (name, limit) = (&self.def().name, self.limits.time);
                notes.timed_out();
                Ended::Failed(ToolError::Host(format!("`{name}` timed out after {limit:?}")))
            }
        }
    }

    /// Records a call whose changes are not stored for an undo, unless the call cannot change anything, or declares
    /// that.
    fn note_uncovered(&self, call: &ToolCall, session: &Session) {
        if !self.tool.keeps_changes() && !self.def().hints.read_only && self.may_have_effects() {
            let subject = || self.tool.subject(&call.arguments);
            session.keeper.uncovered(|| format!("{} {}", self.def().name, subject().text()));
        }
    }

    /// Waits until the tool is ready to be called.
    async fn prepare(&self, cancel: &CancellationToken) -> Result<(), ToolError> {
        let Some(preparation) = self.tool.preparation() else { return Ok(()) };
        tokio::select! {
            biased;
            prepared = catch_panics(async { preparation.await; Ok(()) }) => prepared,
            () = cancel.cancelled() => Err(self.cancelled()),
            () = tokio::time::sleep(PREPARATION) => {
                let name = &self.def().name;
                Err(ToolError::Host(format!("`{name}` was not ready after {PREPARATION:?}")))
            }
        }
    }
}

/// Runs a tool; a panic of its code becomes its error.
async fn catch_panics<T>(call: impl Future<Output = Result<T, ToolError>>) -> Result<T, ToolError> {
    let mut call = pin!(call);
    std::future::poll_fn(|cx| {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx)));
        polled.unwrap_or_else(|_| {
            Poll::Ready(Err(ToolError::Host("the tool panicked; this is a bug in haft".into())))
        })
    })
    .await
}
