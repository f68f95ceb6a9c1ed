//! One tool of a toolbox, with its grant and limits. Decides whether a call may run, and bounds its time; `watch`
//! reports how the call ended.

mod run;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::approval::{Asked, Decision, current_text};
use super::bounds::ToolBounds;
use super::hook::{self, Hook, Seen};
use super::inline;
use super::rules::{Places, Ruling, ToolRules, rank};
use super::session::Session;
use super::watch::{Ended, Watch};
use super::{Difference, Notes, Offer, Schema, SchemaError, Served, Tool, ToolError};
use crate::call::{ToolCall, ToolDef, ToolResult};
use crate::grant::{Grant, Root};
use crate::journal::{Granted, Record};
use crate::limit::Limits;
use crate::rule::Effect;
use crate::secret::Redactor;

/// One tool of the box, with its rights and limits.
#[derive(Clone)]
pub struct Entry {
    tool: Arc<dyn Tool>,
    grant: Grant,
    limits: Limits,
    origin: String,
    /// The line of program.toml that demands the user's approval of every call.
    pub(super) setting: Option<Arc<str>>,
    /// The rules that may match a call of the tool.
    pub(super) rules: Option<Arc<ToolRules>>,
    /// The bounds of the calling programs, nearest first.
    bounds: Vec<ToolBounds>,
    /// The hooks that see the tool's calls.
    hooks: Vec<Arc<dyn Hook>>,
    /// Compiled at the first call: most tools of a program are never called in a run.
    schema: Arc<OnceLock<Result<Schema, SchemaError>>>,
}

/// Time limit for a tool to stop by itself, after a cancellation or at its deadline, before its future is dropped.
/// Longer than a child's time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(3);

/// Time limit of a tool's preparation: many times the compilation of the largest component on a slow, busy machine.
const PREPARATION: Duration = Duration::from_mins(10);

impl Entry {
    pub(super) fn new(tool: Arc<dyn Tool>, grant: Grant, limits: Limits, origin: impl Into<String>) -> Self {
        let (origin, setting, rules, schema) = (origin.into(), None, None, Arc::default());
        let (bounds, hooks) = (Vec::new(), Vec::new());
        Self { tool, grant, limits, origin, setting, rules, bounds, hooks, schema }
    }

    /// Returns the tool's definition for models.
    pub fn def(&self) -> &ToolDef {
        self.tool.def()
    }

    /// Returns the offer that clients see, if this is not a tool.
    pub fn offer(&self) -> Option<Offer<'_>> {
        self.tool.offer()
    }

    /// Returns the MCP server's own definition, if this is a tool of a server.
    pub fn served(&self) -> Option<Served<'_>> {
        self.tool.served()
    }

    /// Returns whether the tool is an agent.
    pub fn is_agent(&self) -> bool {
        self.tool.is_agent()
    }

    /// Returns the rights of the tool.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Returns the limits of the tool.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the journal record of a call of this tool, with the fields known before it runs.
    pub(super) fn describe(&self, record: Record, redactor: &Redactor) -> Record {
        Record {
            // The intended tool, in any spelling of the call.
            tool: self.def().name.clone(),
            grant: Some(Granted::from(self.grant()).cleaned(|text| redactor.redact_owned(text))),
            origin: Some(redactor.redact(self.origin()).into_owned()),
            digest: self.digest().map(str::to_owned),
            ..record
        }
    }

    /// Returns whether the user may be asked before a call.
    pub fn asks(&self) -> bool {
        let is_asked = self.setting.is_some() || self.rules.as_ref().is_some_and(|rules| rules.may_ask());
        is_asked || self.bounds.iter().any(ToolBounds::may_ask)
    }

    /// Returns whether a call may first be polled on the reading thread: the tool allows it
    /// ([`Tool::may_run_inline`]), no user may be asked, and no hook sees the call.
    pub fn may_run_inline(&self) -> bool {
        !self.asks() && self.hooks.is_empty() && self.tool.may_run_inline(&self.grant)
    }

    /// Returns whether a call might change or send anything ([`Tool::may_have_effects`]): through the tool, or
    /// through a hook, which runs before it with its own rights.
    pub fn may_have_effects(&self) -> bool {
        !self.hooks.is_empty() || self.tool.may_have_effects(&self.grant)
    }

    /// Returns the origin of the tool, for people.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the entry with a question to the user before every call; `setting` is the setting that demands it.
    pub(super) fn asking(self, setting: impl Into<Arc<str>>) -> Self {
        Self { setting: Some(setting.into()), ..self }
    }

    /// Returns the entry with its rights reduced to those of `grant`. A component's configuration values are not
    /// rights, and remain.
    pub(super) fn narrowed(&self, grant: &Grant) -> Self {
        let left = self.grant.intersect(grant);
        let values = self.grant.values().iter();
        let grant = values.fold(left, |grant, (name, value)| grant.with_value(name, value));
        Self { grant, ..self.clone() }
    }

    /// Returns whether `other`, this tool with fewer rights, would ignore its narrower grant, because its rights
    /// are fixed before a call ([`Tool::has_fixed_rights`]).
    pub fn ignores_grant_of(&self, other: &Self) -> bool {
        self.has_fixed_rights() && self.grant != other.grant
    }

    /// Returns the entry in plan mode.
    #[must_use]
    pub fn planning(&self) -> Self {
        Self { grant: self.grant.planning(), ..self.clone() }
    }

    /// Returns whether a narrower grant would leave it with the rights that it has ([`Tool::has_fixed_rights`]).
    pub fn has_fixed_rights(&self) -> bool {
        self.tool.has_fixed_rights()
    }

    /// Returns the entry with these rules.
    pub(super) fn ruled(&self, rules: Option<Arc<ToolRules>>) -> Self {
        Self { rules, ..self.clone() }
    }

    /// Returns the entry with the bounds of other programs for its calls.
    pub(super) fn bounded(&self, bounds: Vec<ToolBounds>) -> Self {
        Self { bounds, ..self.clone() }
    }

    /// Returns the entry with this hook added, once.
    pub(super) fn hooked(&self, hook: Arc<dyn Hook>) -> Self {
        let is_new = !self.hooks.iter().any(|own| std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(&hook)));
        let hooks = self.hooks.iter().cloned().chain(is_new.then_some(hook)).collect();
        Self { hooks, ..self.clone() }
    }

    /// Returns an entry of another tool with these rights, without rules and hooks.
    pub(super) fn of(&self, tool: Arc<dyn Tool>) -> Self {
        let other = Self::new(tool, self.grant.clone(), self.limits, self.origin.clone());
        Self { setting: self.setting.clone(), bounds: self.bounds.clone(), ..other }
    }

    /// Returns the SHA-256 of the component, if the tool is one.
    pub fn digest(&self) -> Option<&str> {
        self.tool.digest()
    }

    /// Returns whether the user was asked, if the call may run; otherwise the end of the call.
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

    /// Returns the decision about the call: the answer of a refused call, or the setting that requires the user's
    /// approval. The program's own rules override its setting. Every calling program decides separately, and the
    /// strictest decision counts.
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

    /// Asks the hooks, and then the user if `setting` demands it: a call that a hook refuses needs no question.
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

    /// Reports the end of a call to the hooks.
    pub(super) async fn tell(
        &self,
        call: &ToolCall,
        result: &ToolResult,
        duration: Duration,
        session: &Session,
    ) {
        if !self.hooks.is_empty() {
            let call = self.public(call, session);
            // The call has ended: its own cancellation would stop a hook that is notified of a cancelled call.
            let cancel = CancellationToken::new();
            let seen = Seen { cancel: &cancel, ..self.seen(&call, session) };
            Box::pin(hook::after(&self.hooks, &seen, result, duration)).await;
        }
    }

    /// Returns the call under the tool's own name and without secrets.
    fn public(&self, call: &ToolCall, session: &Session) -> ToolCall {
        ToolCall { tool: self.def().name.clone(), ..session.redactor.call(call).into_owned() }
    }

    fn seen<'a>(&'a self, call: &'a ToolCall, session: &'a Session) -> Seen<'a> {
        Seen { call, origin: &self.origin, cancel: &session.cancel, client: session.client }
    }

    /// Returns the base of a call's relative paths, regardless of the right to read there.
    fn workspace(&self) -> Option<&Path> {
        self.grant.base().map(Root::path)
    }

    /// Asks the user, and records the decision. Returns the text of the answer if the user denied.
    async fn ask(
        &self,
        setting: &str,
        call: &ToolCall,
        notes: &Notes,
        session: &Session,
    ) -> Result<(), String> {
        // The intended tool, in any spelling of the call.
        let meant = ToolCall { tool: self.def().name.clone(), ..call.clone() };
        let subject = self.tool.subject(&call.arguments);
        let denied = subject.denied();
        let agent = session.lineage.path();
        let home = self.rules.as_ref().and_then(|rules| rules.home());
        let places = Places { base: None, workspace: self.workspace(), home };
        let public = session.redactor.call(&meant).into_owned().arguments;
        let file = match self.tool.file(&call.arguments) {
            // An empty file stands for the unknown one: without a difference its content is not needed.
            Some(path) if Difference::of(&public, Some("")).is_some() => {
                current_text(path, places, &self.grant).await
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

    /// Checks the call's arguments: on another thread if the check against the third-party schema may take long.
    async fn check(&self, call: &ToolCall, cancel: &CancellationToken) -> Result<(), ToolError> {
        let compile = |tool: &dyn Tool| Schema::compile(&tool.def().parameters);
        if self.schema.get().is_none() && Schema::compiles_quickly(&self.def().parameters) {
            self.schema.get_or_init(|| compile(&*self.tool));
        }
        let is_quick = |schema: &Schema| schema.is_quick(&call.arguments);
        if let Some(schema) = self.schema.get().filter(|schema| schema.as_ref().is_ok_and(is_quick)) {
            return checked(schema, self.def(), &call.arguments);
        }
        // A thread that runs calls itself may be confined, and a thread that it starts would be too.
        inline::leave().await;
        let (schema, tool, arguments) = (self.schema.clone(), self.tool.clone(), call.arguments.clone());
        let check = tokio::task::spawn_blocking(move || {
            checked(schema.get_or_init(|| compile(&*tool)), tool.def(), &arguments)
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
