//! One tool of a toolbox, with what it may do and use. It decides whether a call may run and bounds its time;
//! reporting how a call ended is the job of `watch`.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::approval::{Approval, Decision};
use super::session::Session;
use super::watch::{Ended, Watch};
use super::{Context, Notes, Schema, SchemaError, Tool, ToolError};
use crate::call::{ToolCall, ToolDef, ToolResult};
use crate::grant::Grant;
use crate::journal::{Granted, Record};
use crate::limit::Limits;
use crate::secret::Redactor;

/// One tool in the box, with what it may do and use.
pub struct Entry {
    tool: Arc<dyn Tool>,
    grant: Grant,
    limits: Limits,
    origin: String,
    /// What a person is asked before every call.
    approval: Option<Arc<Approval>>,
    /// Compiled at the first call: most tools of a program are never called in a run.
    schema: OnceLock<Result<Schema, SchemaError>>,
}

/// How long a tool may take to stop by itself, after a cancel or at its deadline, before its
/// future is dropped. Longer than a child's way from TERM to KILL.
const GRACE: Duration = Duration::from_secs(3);

impl Entry {
    pub(super) fn new(tool: Arc<dyn Tool>, grant: Grant, limits: Limits, origin: impl Into<String>) -> Self {
        Self { tool, grant, limits, origin: origin.into(), approval: None, schema: OnceLock::new() }
    }

    /// What models are told about the tool.
    pub fn def(&self) -> &ToolDef {
        self.tool.def()
    }

    /// What the tool may do.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// What the tool may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The journal's line of a call of this tool, with what is known before it runs.
    pub(super) fn describe(&self, record: Record, redactor: &Redactor) -> Record {
        Record {
            // The tool that was meant, however it was written.
            tool: self.def().name.clone(),
            grant: Some(Granted::from(self.grant()).cleaned(|text| redactor.redact_owned(text))),
            origin: Some(redactor.redact(self.origin()).into_owned()),
            digest: self.digest().map(str::to_owned),
            ..record
        }
    }

    /// Whether a person is asked before every call.
    pub fn asks(&self) -> bool {
        self.approval.is_some()
    }

    /// Whether a call may first be polled on the thread that read it: the tool says so
    /// ([`Tool::may_run_inline`]), and no person is asked.
    pub fn may_run_inline(&self) -> bool {
        self.approval.is_none() && self.tool.may_run_inline(&self.grant)
    }

    /// Where the tool comes from, for people.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The same, but a person is asked before every call.
    pub(super) fn asking(self, approval: Approval) -> Self {
        Self { approval: Some(Arc::new(approval)), ..self }
    }

    /// The same with no more rights than `grant` has too.
    pub(super) fn narrowed(&self, grant: &Grant) -> Self {
        let same =
            Self::new(self.tool.clone(), self.grant.intersect(grant), self.limits, self.origin.clone());
        Self { approval: self.approval.clone(), ..same }
    }

    /// SHA-256 of what is run, where the tool is a component.
    pub fn digest(&self) -> Option<&str> {
        self.tool.digest()
    }

    /// Whether the call may run; how it ended, where it may not.
    pub(super) async fn admit(
        &self,
        call: &ToolCall,
        watch: &Watch<'_>,
        session: &Session,
    ) -> Result<(), Ended> {
        self.check(call).map_err(Ended::Failed)?;
        if let Some(refusal) = self.tool.refusal(&call.arguments) {
            watch.notes().decision(|| format!("refused: {refusal}"));
            return Err(refused(refusal.to_string()));
        }
        if let Some(approval) = &self.approval {
            tokio::select! {
                biased;
                () = session.cancel.cancelled() => return Err(Ended::Failed(self.cancelled())),
                decision = self.ask(approval, call, session) => {
                    self.decided(approval, decision, watch.notes()).map_err(refused)?;
                }
            }
        }
        session
            .ledger
            .enter(call)
            .map_err(|error| refused(format!("the call was not run: it cannot be written down: {error}")))?;
        watch.runs();
        Ok(())
    }

    async fn ask(&self, approval: &Approval, call: &ToolCall, session: &Session) -> Decision {
        let redact = |text| session.redactor.redact_owned(text);
        session.approvals.ask(&approval.question(&self.def().name, call, redact)).await
    }

    /// Notes what a person decided; the answer's text, where that is no.
    fn decided(&self, approval: &Approval, decision: Decision, notes: &Notes) -> Result<(), String> {
        match decision {
            Decision::Approved => {
                notes.decision(|| "approved by a person".into());
                Ok(())
            }
            Decision::Always => {
                notes.decision(|| "approved by a person, as every call of the tool in this session".into());
                Ok(())
            }
            Decision::Denied => {
                notes.decision(|| "denied by a person".into());
                Err(approval.denied.to_owned())
            }
            Decision::Unasked(why) => {
                notes.decision(|| format!("not approved: {why}"));
                Err(unasked(&self.def().name, &why, &approval.setting))
            }
        }
    }

    fn cancelled(&self) -> ToolError {
        ToolError::Host(format!("`{}` was cancelled", self.def().name))
    }

    fn check(&self, call: &ToolCall) -> Result<(), ToolError> {
        let schema = self.schema.get_or_init(|| Schema::compile(&self.def().parameters));
        match schema {
            Ok(schema) => {
                schema.check(&call.arguments).map_err(|e| ToolError::InvalidArguments(e.to_string()))
            }
            Err(error) => Err(ToolError::Host(format!("`{}` cannot be called: {error}", self.def().name))),
        }
    }

    /// Runs a call that was admitted: at most as long as the limits allow, and not after a cancel.
    pub(super) async fn run(&self, call: &ToolCall, watch: &Watch<'_>, session: &Session) -> Ended {
        let cancel = session.cancel.child_token();
        let (events, notes) = (watch.events(), watch.notes());
        let (grant, limits, cancel) = (&self.grant, &self.limits, &cancel);
        let (whole, client) = (&session.whole, session.client);
        let context = Context { grant, limits, events, cancel, notes, whole, client };
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
}

fn refused(why: impl Into<String>) -> Ended {
    Ended::Refused(ToolResult::error(why.into()))
}

fn unasked(tool: &str, why: &str, setting: &str) -> String {
    format!(
        "`{tool}` did not run: it needs a person's approval, and {why}\n\
         hint: call it where a person can answer: from a terminal, or from an MCP client with elicitation; or \
         remove {setting}"
    )
}

/// Ends [`GRACE`] after the call was cancelled.
async fn cancelled_and_waited(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

/// Runs a tool; a panic of its code becomes its error.
async fn catch_panics(
    call: impl Future<Output = Result<ToolResult, ToolError>>,
) -> Result<ToolResult, ToolError> {
    let mut call = pin!(call);
    std::future::poll_fn(|cx| {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx)));
        polled.unwrap_or_else(|_| {
            Poll::Ready(Err(ToolError::Host("the tool panicked; this is a defect of haft".into())))
        })
    })
    .await
}
