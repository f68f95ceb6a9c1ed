//! One tool of a toolbox, with what it may do and use. It decides whether a call may run and bounds its time;
//! reporting how a call ended is the job of `watch`.

mod run;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::approval::{Asked, Decision};
use super::bounds::ToolBounds;
use super::hook::{self, Hook, Seen};
use super::inline;
use super::rules::{Places, Ruling, ToolRules, rank};
use super::session::Session;
use super::watch::{Ended, Watch};
use super::{Difference, Notes, Offer, Schema, SchemaError, Served, Tool, ToolError, present};
use crate::call::{ToolCall, ToolDef, ToolResult};
use crate::grant::{Grant, Root};
use crate::journal::{Granted, Record};
use crate::limit::Limits;
use crate::rule::Effect;
use crate::secret::Redactor;

/// One tool in the box, with what it may do and use.
pub struct Entry {
    tool: Arc<dyn Tool>,
    grant: Grant,
    limits: Limits,
    origin: String,
    /// The line of program.toml that has a person asked before every call.
    setting: Option<Arc<str>>,
    /// The rules that may mean a call of it.
    rules: Option<Arc<ToolRules>>,
    /// What the programs say of its calls that it is called for, nearest first.
    bounds: Vec<ToolBounds>,
    /// What sees its calls.
    hooks: Vec<Arc<dyn Hook>>,
    /// Compiled at the first call: most tools of a program are never called in a run.
    schema: Arc<OnceLock<Result<Schema, SchemaError>>>,
}

/// How long a tool may take to stop by itself, after a cancel or at its deadline, before its
/// future is dropped. Longer than a child's way from TERM to KILL.
const GRACE: Duration = Duration::from_secs(3);

/// How long a tool may take to get ready: compiling the largest component takes a fraction of it on a slow machine that
/// has other work.
const PREPARATION: Duration = Duration::from_mins(10);

impl Entry {
    pub(super) fn new(tool: Arc<dyn Tool>, grant: Grant, limits: Limits, origin: impl Into<String>) -> Self {
        let (origin, setting, rules, schema) = (origin.into(), None, None, Arc::default());
        let (bounds, hooks) = (Vec::new(), Vec::new());
        Self { tool, grant, limits, origin, setting, rules, bounds, hooks, schema }
    }

    /// What models are told about the tool.
    pub fn def(&self) -> &ToolDef {
        self.tool.def()
    }

    /// What clients are shown, where this is no tool.
    pub fn offer(&self) -> Option<Offer<'_>> {
        self.tool.offer()
    }

    /// What an MCP server says of it, where it is a tool of one.
    pub fn served(&self) -> Option<Served<'_>> {
        self.tool.served()
    }

    /// Whether it is an agent.
    pub fn is_agent(&self) -> bool {
        self.tool.is_agent()
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

    /// Whether a person may be asked before a call.
    pub fn asks(&self) -> bool {
        let is_asked = self.setting.is_some() || self.rules.as_ref().is_some_and(|rules| rules.may_ask());
        is_asked || self.bounds.iter().any(ToolBounds::may_ask)
    }

    /// Whether a call may first be polled on the thread that read it: the tool says so
    /// ([`Tool::may_run_inline`]), no person may be asked, and no hook sees it.
    pub fn may_run_inline(&self) -> bool {
        !self.asks() && self.hooks.is_empty() && self.tool.may_run_inline(&self.grant)
    }

    /// Whether a call might change or send anything ([`Tool::may_have_effects`]): the tool, or a hook, which runs before
    /// it with rights of its own.
    pub fn may_have_effects(&self) -> bool {
        !self.hooks.is_empty() || self.tool.may_have_effects(&self.grant)
    }

    /// Where the tool comes from, for people.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The same, but a person is asked before every call, as `setting` says.
    pub(super) fn asking(self, setting: impl Into<Arc<str>>) -> Self {
        Self { setting: Some(setting.into()), ..self }
    }

    /// The same with no more rights than `grant` has too. Values of its own that a component sees are no right, and
    /// stay.
    pub(super) fn narrowed(&self, grant: &Grant) -> Self {
        let left = self.grant.intersect(grant);
        let values = self.grant.values().iter();
        let grant = values.fold(left, |grant, (name, value)| grant.with_value(name, value));
        Self { grant, ..self.again() }
    }

    /// Whether `other`, the same tool with fewer rights, would act with more than those: its rights are fixed before
    /// a call ([`Tool::has_fixed_rights`]).
    pub fn ignores_grant_of(&self, other: &Self) -> bool {
        self.has_fixed_rights() && self.grant != other.grant
    }

    /// The same in plan mode.
    pub(super) fn planning(&self) -> Self {
        Self { grant: self.grant.planning(), ..self.again() }
    }

    /// Whether a narrower grant would leave it with the rights that it has ([`Tool::has_fixed_rights`]).
    pub(super) fn has_fixed_rights(&self) -> bool {
        self.tool.has_fixed_rights()
    }

    /// Whether program.toml has a person asked before every call.
    pub(super) fn has_setting(&self) -> bool {
        self.setting.is_some()
    }

    pub(super) fn is_ruled(&self) -> bool {
        self.rules.is_some()
    }

    /// The same with these rules.
    pub(super) fn ruled(&self, rules: Option<Arc<ToolRules>>) -> Self {
        Self { rules, ..self.again() }
    }

    /// The same, bound by what other programs say of its calls.
    pub(super) fn bounded(&self, bounds: Vec<ToolBounds>) -> Self {
        Self { bounds, ..self.again() }
    }

    /// The same, seen by this hook too, once.
    pub(super) fn hooked(&self, hook: Arc<dyn Hook>) -> Self {
        let is_new = !self.hooks.iter().any(|own| std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(&hook)));
        let hooks = self.hooks.iter().cloned().chain(is_new.then_some(hook)).collect();
        Self { hooks, ..self.again() }
    }

    /// Another tool with the same rights, of which nobody has said anything yet.
    pub(super) fn of(&self, tool: Arc<dyn Tool>) -> Self {
        let other = Self::new(tool, self.grant.clone(), self.limits, self.origin.clone());
        Self { setting: self.setting.clone(), bounds: self.bounds.clone(), ..other }
    }

    fn again(&self) -> Self {
        let same = Self::new(self.tool.clone(), self.grant.clone(), self.limits, self.origin.clone());
        let (setting, rules, bounds) = (self.setting.clone(), self.rules.clone(), self.bounds.clone());
        Self { setting, rules, bounds, hooks: self.hooks.clone(), schema: self.schema.clone(), ..same }
    }

    /// SHA-256 of what is run, where the tool is a component.
    pub fn digest(&self) -> Option<&str> {
        self.tool.digest()
    }

    /// Whether the call may run, and a person was asked; how it ended, where it may not.
    pub(super) async fn admit(
        &self,
        call: &ToolCall,
        watch: &Watch<'_>,
        session: &Session,
    ) -> Result<bool, Ended> {
        self.check(call, &session.cancel).await.map_err(Ended::Failed)?;
        if let Some(refusal) = self.tool.refusal(&call.arguments) {
            watch.notes().decision(|| format!("refused: {refusal}"));
            return Err(refused(refusal.to_string()));
        }
        let setting = self.judged(call, watch.notes()).map_err(refused)?;
        let approved = setting.is_some();
        if approved || !self.hooks.is_empty() {
            tokio::select! {
                biased;
                () = session.cancel.cancelled() => return Err(Ended::Failed(self.cancelled())),
                answer = self.approve(setting, call, watch.notes(), session) => answer.map_err(refused)?,
            }
        }
        session.ledger.enter(call).map_err(|error| {
            refused(format!("the call was not run: the journal cannot record it: {error}"))
        })?;
        watch.runs();
        Ok(approved)
    }

    /// What is said of the call: the answer, where it is refused; what has a person asked, where one is. The program's own
    /// rules answer for its setting, and every program that it is called for answers for itself: the strictest counts.
    fn judged(&self, call: &ToolCall, notes: &Notes) -> Result<Option<Arc<str>>, String> {
        let subject = || self.tool.subject(&call.arguments);
        let own = self.rules.as_ref().and_then(|rules| rules.ruling(subject, self.workspace()));
        let setting = self.setting.clone().filter(|_| own.is_none());
        let outer = self.bounds.iter().filter_map(|bounds| bounds.ruling(subject, self.workspace()));
        let strictest = own.into_iter().chain(outer).min_by_key(|ruling| rank(ruling.effect));
        let Some(Ruling { effect, because }) = strictest else { return Ok(setting) };
        match effect {
            Effect::Allow => {
                if setting.is_none() {
                    notes.decision(|| format!("allowed by {because}"));
                }
                Ok(setting)
            }
            Effect::Ask => {
                notes.decision(|| format!("asked because of {because}"));
                Ok(Some(because.into()))
            }
            Effect::Deny => {
                notes.decision(|| format!("refused by {because}"));
                Err(format!("`{}` did not run: {because} refuses the call", self.def().name))
            }
        }
    }

    /// Asks the hooks, and then a person where `setting` says so: what a hook refuses is not worth a person's time.
    async fn approve(
        &self,
        setting: Option<Arc<str>>,
        call: &ToolCall,
        notes: &Notes,
        session: &Session,
    ) -> Result<(), String> {
        if !self.hooks.is_empty() {
            let call = self.public(call, session);
            // Most calls have no hook: their futures stay small.
            Box::pin(hook::before(&self.hooks, &self.seen(&call, session), notes)).await?;
        }
        match setting {
            Some(setting) => self.ask(&setting, call, notes, session).await,
            None => Ok(()),
        }
    }

    /// Tells the hooks how a call ended.
    pub(super) async fn tell(
        &self,
        call: &ToolCall,
        result: &ToolResult,
        duration: Duration,
        session: &Session,
    ) {
        if !self.hooks.is_empty() {
            let call = self.public(call, session);
            // The call is over: its own cancel would stop a hook that is told of a call that was stopped.
            let cancel = CancellationToken::new();
            let seen = Seen { cancel: &cancel, ..self.seen(&call, session) };
            Box::pin(hook::after(&self.hooks, &seen, result, duration)).await;
        }
    }

    /// The call under the tool's own name and without secrets.
    fn public(&self, call: &ToolCall, session: &Session) -> ToolCall {
        ToolCall { tool: self.def().name.clone(), ..session.redactor.call(call).into_owned() }
    }

    fn seen<'a>(&'a self, call: &'a ToolCall, session: &'a Session) -> Seen<'a> {
        Seen { call, origin: &self.origin, cancel: &session.cancel, client: session.client }
    }

    /// Where relative paths of a call start, whether files there may be read or not.
    fn workspace(&self) -> Option<&Path> {
        self.grant.base().map(Root::path)
    }

    /// Asks a person, and notes what was decided. The answer's text, where that is no.
    async fn ask(
        &self,
        setting: &str,
        call: &ToolCall,
        notes: &Notes,
        session: &Session,
    ) -> Result<(), String> {
        // The tool that was meant, however it was written.
        let meant = ToolCall { tool: self.def().name.clone(), ..call.clone() };
        let subject = self.tool.subject(&call.arguments);
        let denied = subject.denied();
        let agent = session.lineage.path();
        let home = self.rules.as_ref().and_then(|rules| rules.home());
        let places = Places { base: None, workspace: self.workspace(), home };
        let public = session.redactor.call(&meant).into_owned().arguments;
        let file = match self.tool.file(&call.arguments) {
            // Only where that makes a difference: an empty file would.
            Some(path) if Difference::of(&public, Some("")).is_some() => {
                present::text(path, places, &self.grant).await
            }
            _ => None,
        };
        let asked = Asked { call: &meant, subject, places, agent, public, file };
        let answer = session.approvals.ask(&asked, |text| session.redactor.redact_owned(text));
        match notes.waiting(answer).await {
            Decision::Approved | Decision::Written => notes.decision(|| "approved by a person".into()),
            Decision::Always => {
                notes.decision(|| "approved by a person for this session".into());
            }
            Decision::Denied => {
                notes.decision(|| "denied by a person".into());
                return Err(denied.to_owned());
            }
            Decision::Unasked(why) => {
                notes.decision(|| format!("not approved: {why}"));
                return Err(unasked(&self.def().name, &why, setting));
            }
        }
        Ok(())
    }

    fn cancelled(&self) -> ToolError {
        ToolError::Host(format!("`{}` was cancelled", self.def().name))
    }

    /// Checks the call's arguments: on another thread where the schema, a stranger's, may take long.
    async fn check(&self, call: &ToolCall, cancel: &CancellationToken) -> Result<(), ToolError> {
        let is_quick = |schema: &Schema| schema.is_quick(&call.arguments);
        if let Some(schema) = self.schema.get().filter(|schema| schema.as_ref().is_ok_and(is_quick)) {
            return checked(schema, self.def(), &call.arguments);
        }
        // A thread that runs calls itself may be confined, and a thread that it starts would be too.
        inline::leave().await;
        let (schema, tool, arguments) = (self.schema.clone(), self.tool.clone(), call.arguments.clone());
        let check = tokio::task::spawn_blocking(move || {
            checked(schema.get_or_init(|| Schema::compile(&tool.def().parameters)), tool.def(), &arguments)
        });
        let cannot = |why: String| ToolError::Host(format!("`{}` cannot be called: {why}", self.def().name));
        tokio::select! {
            biased;
            checked = check => checked.map_err(|error| cannot(error.to_string()))?,
            () = cancelled_and_waited(cancel) => Err(self.cancelled()),
            () = tokio::time::sleep(self.limits.time) => {
                Err(cannot(format!("the check of its arguments took longer than {:?}", self.limits.time)))
            }
        }
    }
}

fn checked(schema: &Result<Schema, SchemaError>, def: &ToolDef, arguments: &Value) -> Result<(), ToolError> {
    match schema {
        Ok(schema) => schema.check(arguments).map_err(|e| ToolError::InvalidArguments(e.to_string())),
        Err(error) => Err(ToolError::Host(format!("`{}` cannot be called: {error}", def.name))),
    }
}

fn refused(why: impl Into<String>) -> Ended {
    Ended::Refused(ToolResult::error(why.into()))
}

fn unasked(tool: &str, why: &str, setting: &str) -> String {
    format!(
        "`{tool}` did not run: it needs a person's approval, and {why}\n\
         hint: call it where a person can answer: from a terminal, on `haft dashboard`, or from an MCP client with \
         elicitation; or remove {setting}"
    )
}

/// Ends [`GRACE`] after the call was cancelled.
async fn cancelled_and_waited(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(GRACE).await;
}
