//! The box of tools, and the only door to them: [`Toolbox::dispatch`] finds the tool, checks
//! the arguments, bounds the time and turns whatever happens into an answer. It never fails.

use std::collections::{BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::approval::{Approval, Approvals, Decision};
use super::budget::Offered;
use super::search;
use super::watch::Watch;
use super::{Client, Context, Ledger, Notes, Schema, SchemaError, Tool, ToolError};
use crate::call::{ToolCall, ToolDef, ToolResult};
use crate::event::Events;
use crate::grant::Grant;
use crate::journal::{Journal, Outcome};
use crate::limit::Limits;
use crate::manifest::ToolPattern;
use crate::secret::Redactor;

/// Tools by name, in the order they were put in.
#[derive(Clone, Default)]
pub struct Toolbox {
    pub(super) entries: Vec<Arc<Entry>>,
    /// Every name and alias, to the index of its entry.
    names: HashMap<String, usize>,
    /// What models are told of where not everything fits.
    pub(super) offered: Option<Offered>,
}

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
    /// Who is asked where a tool needs a person's approval.
    pub approvals: Approvals,
    /// Where calls are written down before they run.
    pub ledger: Ledger,
    /// Whose calls they are, where several share what haft has.
    pub client: Client,
}

/// Two tools of one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two tools are called `{name}`: one from {first}, one from {second}")]
pub struct DuplicateTool {
    /// The name both claim.
    pub name: String,
    /// Where the first comes from.
    pub first: String,
    /// Where the second comes from.
    pub second: String,
}

/// The farthest a name may be from what was asked for and still be suggested.
const MIN_LIKENESS: f64 = 0.7;

/// How long a tool may take to stop by itself, after a cancel or at its deadline, before its
/// future is dropped. Longer than a child's way from TERM to KILL.
const GRACE: Duration = Duration::from_secs(3);

impl Toolbox {
    /// Puts a tool in. `origin` says where it comes from, for people.
    pub fn insert(
        &mut self,
        tool: Arc<dyn Tool>,
        grant: Grant,
        limits: Limits,
        origin: impl Into<String>,
    ) -> Result<(), DuplicateTool> {
        self.put(Entry::new(tool, grant, limits, origin))
    }

    /// Puts a tool in that runs only when a person approves of the call.
    pub fn insert_asking(
        &mut self,
        tool: Arc<dyn Tool>,
        grant: Grant,
        limits: Limits,
        origin: impl Into<String>,
        approval: Approval,
    ) -> Result<(), DuplicateTool> {
        let entry = Entry::new(tool, grant, limits, origin);
        self.put(Entry { approval: Some(Arc::new(approval)), ..entry })
    }

    fn put(&mut self, entry: Entry) -> Result<(), DuplicateTool> {
        let name = entry.def().name.clone();
        if let Some(first) = self.names.get(&name).and_then(|index| self.entries.get(*index)) {
            return Err(DuplicateTool { name, first: first.origin.clone(), second: entry.origin });
        }
        self.names.insert(name, self.entries.len());
        self.entries.push(Arc::new(entry));
        Ok(())
    }

    /// Lets callers write `alias` for the tool `name`. A tool's own name always wins over an alias.
    pub fn alias(&mut self, alias: impl Into<String>, name: &str) {
        if let Some(index) = self.names.get(name).copied() {
            self.names.entry(alias.into()).or_insert(index);
        }
    }

    /// The tools that `patterns` name, with their grants narrowed to `grant`. No pattern, no tool.
    /// Models are told of all of them: a budget is set last.
    #[must_use]
    pub fn select(&self, patterns: &[ToolPattern], grant: Option<&Grant>) -> Self {
        let is_meant = |name: &str| patterns.iter().any(|pattern| pattern.matches(name));
        let meant = self.names.iter().filter(|(name, _)| is_meant(name));
        let chosen: BTreeSet<usize> = meant.map(|(_, index)| *index).collect();
        let own: HashMap<usize, usize> =
            chosen.iter().enumerate().map(|(own, index)| (*index, own)).collect();
        let names = self.names.iter().filter_map(|(name, index)| Some((name.clone(), *own.get(index)?)));
        let entries = chosen.iter().filter_map(|index| self.entries.get(*index));
        let narrowed =
            |entry: &Arc<Entry>| grant.map_or_else(|| entry.clone(), |grant| Arc::new(entry.narrowed(grant)));
        Self { entries: entries.map(narrowed).collect(), names: names.collect(), offered: None }
    }

    /// The tools, in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter().map(Arc::as_ref)
    }

    /// Every name that a tool can be called by, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// What models are told, in order.
    pub fn defs(&self) -> Vec<&ToolDef> {
        self.offered().into_iter().map(|(def, _)| def).collect()
    }

    /// The tool that `name` means: exactly, as an alias, or without regard to case.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        let exact = self.names.get(name).and_then(|index| self.entries.get(*index));
        let is_it = |entry: &&Arc<Entry>| entry.def().name.eq_ignore_ascii_case(name);
        let search = self.offered.iter().map(|offered| &offered.search);
        exact.or_else(|| self.entries.iter().chain(search).find(is_it)).map(Arc::as_ref)
    }

    /// Runs a call and answers it, whatever happens.
    pub async fn dispatch(&self, call: ToolCall, session: &Session) -> ToolResult {
        let call = match self.meant(&call) {
            Ok(meant) => meant.unwrap_or(call),
            Err(error) => {
                let refusal = ToolResult::error(error.to_string());
                let watch = Watch::begin(&call, None, session);
                return watch.end_without_tool(refusal, Outcome::InvalidArguments);
            }
        };
        let entry = self.find(&call.tool);
        let watch = Watch::begin(&call, entry, session);
        match entry {
            Some(entry) => match entry.admit(&call, &watch, session).await {
                Ok(()) => {
                    let answer = entry.bounded(&call, &watch, session).await.map_err(classified);
                    watch.end(answer)
                }
                Err(Turned::Wrong(error)) => watch.end(Err(classified(error))),
                Err(Turned::Away(refusal)) => watch.end_without_tool(*refusal, Outcome::Refused),
            },
            None => watch.end_without_tool(ToolResult::error(self.unknown(&call.tool)), Outcome::UnknownTool),
        }
    }

    /// Answers a call with `refusal` instead of running it: whoever watches learns of it as of any
    /// other.
    pub fn refuse(&self, call: &ToolCall, refusal: ToolResult, session: &Session) -> ToolResult {
        Watch::begin(call, self.find(&call.tool), session).end_without_tool(refusal, Outcome::Refused)
    }

    fn unknown(&self, name: &str) -> String {
        let likeness = |entry: &&Entry| strsim::jaro_winkler(&entry.def().name, name);
        let nearest = self.entries().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        match nearest.filter(|entry| likeness(entry) >= MIN_LIKENESS) {
            Some(entry) => format!("Unknown tool: {name}; did you mean `{}`?", entry.def().name),
            None if self.offered.is_some() => {
                format!("Unknown tool: {name}; `{}` finds those there are", search::NAME)
            }
            None => format!("Unknown tool: {name}"),
        }
    }
}

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

    /// Whether a person is asked before every call.
    pub fn asks(&self) -> bool {
        self.approval.is_some()
    }

    /// Whether a call will be over in a moment, as far as can be told; see [`Tool::is_brief`].
    pub fn is_brief(&self) -> bool {
        self.approval.is_none() && self.tool.is_brief(&self.grant)
    }

    /// Where the tool comes from, for people.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    fn narrowed(&self, grant: &Grant) -> Self {
        let same = Self::new(self.tool.clone(), self.grant.meet(grant), self.limits, self.origin.clone());
        Self { approval: self.approval.clone(), ..same }
    }

    /// SHA-256 of what is run, where the tool is a component.
    pub fn digest(&self) -> Option<&str> {
        self.tool.digest()
    }

    /// Whether the call may run at all.
    async fn admit(&self, call: &ToolCall, watch: &Watch<'_>, session: &Session) -> Result<(), Turned> {
        self.check(call).map_err(Turned::Wrong)?;
        if let Some(refusal) = self.tool.refusal(&call.arguments) {
            watch.notes().decision(|| format!("refused: {refusal}"));
            return Err(Turned::Away(Box::new(ToolResult::error(refusal.to_string()))));
        }
        if let Some(approval) = &self.approval {
            tokio::select! {
                biased;
                () = session.cancel.cancelled() => return Err(Turned::Wrong(self.cancelled())),
                decision = self.ask(approval, call, session) => self.decided(approval, decision, watch.notes())?,
            }
        }
        session.ledger.enter(call).map_err(|error| {
            let text = format!("the call was not run: it cannot be written down: {error}");
            Turned::Away(Box::new(ToolResult::error(text)))
        })?;
        watch.runs();
        Ok(())
    }

    async fn ask(&self, approval: &Approval, call: &ToolCall, session: &Session) -> Decision {
        let redact = |text| session.redactor.redact_owned(text);
        session.approvals.ask(&approval.question(&self.def().name, &call.arguments, redact)).await
    }

    fn decided(&self, approval: &Approval, decision: Decision, notes: &Notes) -> Result<(), Turned> {
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
                Err(Turned::Away(Box::new(ToolResult::error(approval.denied))))
            }
            Decision::Unasked(why) => {
                notes.decision(|| format!("not approved: {why}"));
                let said = unasked(&self.def().name, &why, &approval.setting);
                Err(Turned::Away(Box::new(ToolResult::error(said))))
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

    async fn bounded(
        &self,
        call: &ToolCall,
        watch: &Watch<'_>,
        session: &Session,
    ) -> Result<ToolResult, ToolError> {
        let cancel = session.cancel.child_token();
        let (events, notes) = (watch.events(), watch.notes());
        let (grant, limits, cancel, client) = (&self.grant, &self.limits, &cancel, session.client);
        let context = Context { grant, limits, events, cancel, notes, client };
        tokio::select! {
            biased;
            outcome = unpanicked(self.tool.call(call, &context)) => outcome,
            () = cancelled_and_waited(cancel) => Err(self.cancelled()),
            () = tokio::time::sleep(self.limits.time + GRACE) => {
                let (name, limit) = (&self.def().name, self.limits.time);
                notes.timed_out();
                Err(ToolError::Host(format!("`{name}` timed out after {limit:?}")))
            }
        }
    }
}

/// Why a call does not run.
enum Turned {
    /// It makes no sense, or nobody wants it any more.
    Wrong(ToolError),
    /// It was not approved.
    Away(Box<ToolResult>),
}

fn unasked(tool: &str, why: &str, setting: &str) -> String {
    format!(
        "`{tool}` did not run: it needs a person's approval, and {why}\n\
         hint: call it where a person can answer: from a terminal, or from an MCP client with elicitation; or \
         remove {setting}"
    )
}

fn classified(error: ToolError) -> (ToolError, Outcome) {
    let outcome = match &error {
        ToolError::InvalidArguments(_) => Outcome::InvalidArguments,
        ToolError::ExecutionFailed(_) | ToolError::Host(_) => Outcome::Error,
    };
    (error, outcome)
}

/// Ends [`GRACE`] after the call was cancelled.
async fn cancelled_and_waited(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

/// Runs a tool; a panic of its code becomes its error.
async fn unpanicked(
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

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries().map(|entry| &entry.def().name)).finish()
    }
}

#[cfg(test)]
mod tests;
