//! A tool of a plugin. [`Tool::call`] of [`PluginTool`] has the steps of a call in order: wait for a permit, open the
//! directories, run on the reading thread or on a guest's thread, and convert the guest's answer to a tool result. The
//! instance is new, prewarmed or, with `[plugins.reuse]`, reused.

use std::fmt::Display;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::failure::{End, Limit};
use super::instance::Instance;
use super::threads::NoAnswer;
use crate::call::{Arguments, Call, held};
use crate::contract::guest::{self, Output};
use crate::denials::{self, GrantPlace, HintContext, with_hints};
use crate::instance::idle::{InstanceRights, NoInstance, Reuse};
use crate::instance::state::GuestState;
use crate::plugin::{Plugin, PluginShared};
use crate::storage;
use crate::threads::permits::Tenant;
use crate::threads::permits::{NoPermit, Permit};
use crate::threads::short_call::{self, LastCalls};
use crate::threads::turns::EpochTicks;
use crate::threads::writable::Writable;
use crate::wasi::files::named;
use haft_core::call::{ToolCall, ToolDef, ToolResult};
use haft_core::grant::{Grant, Reach};
use haft_core::tool::inline;
use haft_core::tool::{Context, Preparation, Schema, Subject, SubjectArgument, Tool, ToolError, foreign};

/// One tool of a plugin.
pub struct PluginTool {
    shared: Arc<ToolShared>,
    about: SubjectArgument,
}

struct ToolShared {
    plugin: Arc<PluginShared>,
    def: ToolDef,
    own_name: String,
    grant_place: GrantPlace,
    /// The output schema; compiled at the first call.
    output: OnceLock<Option<Schema>>,
    last_calls: LastCalls,
}

type Outcome = Result<ToolResult, Failure>;

enum Failure {
    ByGuest(ToolError),
    /// The guest trapped, was stopped, or never began; with the lines of program.toml that would have allowed it more.
    ByHost(End, Vec<String>),
}

/// The remains of a call, dropped after the caller has its answer: the instance, if it is no longer needed, before the
/// permit for the next one, if the plugin's instances serve several calls.
type Remains = (Option<Instance>, Option<OwnedSemaphorePermit>, EpochTicks);

impl PluginTool {
    /// Returns the tool that `plugin` lists as `own`, under another name.
    pub fn new(plugin: &Plugin, own: &ToolDef, exposed: String, grant_place: GrantPlace) -> Self {
        let shared = Arc::new(ToolShared {
            plugin: plugin.0.clone(),
            def: ToolDef { name: exposed, ..own.clone() },
            own_name: own.name.clone(),
            grant_place,
            output: OnceLock::new(),
            last_calls: LastCalls::default(),
        });
        Self { shared, about: SubjectArgument::All }
    }

    /// Returns the tool with `about` as the subject of its calls.
    #[must_use]
    pub fn about(self, about: SubjectArgument) -> Self {
        Self { about, ..self }
    }
}

#[async_trait]
impl Tool for PluginTool {
    fn def(&self) -> &ToolDef {
        &self.shared.def
    }

    fn file<'a>(&self, arguments: &'a Value) -> Option<&'a str> {
        self.about.path(arguments)
    }

    fn subject(&self, arguments: &Value) -> Subject {
        self.about.subject(arguments)
    }

    fn may_run_inline(&self, grant: &Grant) -> bool {
        let Self { shared, .. } = self;
        let writes_nowhere = || matches!(grant.writable(), Reach::Roots(roots) if roots.is_empty());
        // A read-only tool gets nothing else to write.
        let may_write =
            storage::granted(grant).next().is_some() || !shared.def.hints.read_only && !writes_nowhere();
        !may_write && shared.plugin.is_loaded() && shared.last_calls.were_short(grant)
    }

    /// Returns whether a call may write granted paths, send to granted hosts, or store state. A guest has no other
    /// effects.
    fn may_have_effects(&self, grant: &Grant) -> bool {
        let may_write = !matches!(grant.writable(), Reach::Roots(roots) if roots.is_empty());
        may_write && !self.def().hints.read_only || !grant.hosts().is_empty() || grant.state().is_some()
    }

    fn keeps_changes(&self) -> bool {
        true
    }

    fn preparation(&self) -> Option<Preparation<'_>> {
        let plugin = &self.shared.plugin;
        if plugin.is_loaded() {
            return None;
        }
        // The call tries again if there was no thread for it, and reports the reason.
        Some(Box::pin(async { _ = PluginShared::load_code(plugin).await }))
    }

    fn digest(&self) -> Option<&str> {
        Some(self.shared.plugin.discovered.digest.as_str())
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let (tool, plugin) = (&self.shared, &self.shared.plugin);
        let grant = tool.narrowed_grant(context);
        let cancel = context.cancel.child_token();
        // Dropping this future stops the guest.
        let _stops_with_this_future = cancel.clone().drop_guard();
        let instance_permit = tool.wait_for_instance(context).await?;
        // Before anything is opened: a waiting call holds only its arguments.
        let permit = tool.wait_for_permit(call, context).await?;
        let no_answer = |no_answer: NoAnswer| tool.ended(&format!("did not run: {no_answer}"));
        let writable = plugin.open_directories(&grant).await.map_err(no_answer)?;
        let begins_inline = self.may_run_inline(context.grant);
        let call = Arc::new(tool.call(call, context, (grant, writable, cancel), begins_inline));
        let outcome = tool.serve_on_thread(call, permit, instance_permit).await;
        plugin.name_profile().await;
        match outcome.map_err(no_answer)? {
            Ok(result) => Ok(result),
            Err(Failure::ByGuest(error)) => Err(error),
            Err(Failure::ByHost(end, hints)) => Err(tool.ended(&with_hints(plugin.told(&end).await, hints))),
        }
    }
}

impl ToolShared {
    /// Returns the rights of a call: a tool that declares itself read-only gets no right to write, which the
    /// journal records.
    fn narrowed_grant(&self, context: &Context<'_>) -> Arc<Grant> {
        let only_reads = self.def.hints.read_only;
        let grant = if only_reads { context.grant.read_only() } else { context.grant.clone() };
        if only_reads && grant != *context.grant {
            let narrowed = "narrowed: the tool declares that it is read-only, so it may not write";
            context.notes.decision(|| narrowed.into());
        }
        Arc::new(grant)
    }

    async fn wait_for_instance(
        &self,
        context: &Context<'_>,
    ) -> Result<Option<OwnedSemaphorePermit>, ToolError> {
        let Some(reuse) = &self.plugin.reuse else { return Ok(None) };
        let permit = reuse.acquire(context.limits, context.cancel).await;
        permit.map(Some).map_err(|none| self.waited(&none, matches!(none, NoInstance::Busy { .. }), context))
    }

    async fn wait_for_permit(&self, call: &ToolCall, context: &Context<'_>) -> Result<Permit, ToolError> {
        let tenant = Tenant { plugin: self.plugin.number, client: context.client };
        let (threads, bytes) = (self.plugin.engine.threads(), || held(&call.arguments));
        let permit = threads.permits.acquire(tenant, bytes, context.limits.time, context.cancel).await;
        permit.map_err(|none| self.waited(&none, matches!(none, NoPermit::Busy { .. }), context))
    }

    fn waited(&self, none: &dyn Display, is_timed_out: bool, context: &Context<'_>) -> ToolError {
        if is_timed_out {
            context.notes.timed_out();
        }
        self.ended(&none.to_string())
    }

    fn call(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
        (grant, writable, cancel): (Arc<Grant>, Writable, CancellationToken),
        begins_inline: bool,
    ) -> Call {
        Call {
            plugin: self.plugin.name.clone(),
            id: call.id.clone(),
            tool: self.own_name.clone(),
            arguments: Arguments::new(self.plugin.discovered.listing.contract, &call.arguments),
            paths: named(&call.arguments),
            grant,
            limits: *context.limits,
            writable: Some(writable),
            caller: context.caller.name().map(Arc::from),
            approved: context.approved,
            begins_inline,
            cancel,
            events: context.events.clone(),
            notes: context.notes.clone(),
            trace: context.caller.trace().parent().cloned(),
            changes: context.caller.keeper().call(),
        }
    }

    /// Serves a call. A call that is likely to be short runs on the calling thread if that reads calls, otherwise on a
    /// guest's thread, which also waits for a short call that becomes long.
    async fn serve_on_thread(
        self: &Arc<Self>,
        call: Arc<Call>,
        permit: Permit,
        instance_permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Outcome, NoAnswer> {
        let threads = self.plugin.engine.threads();
        let (writable, begins_inline) = (call.writable.clone().unwrap_or_default(), call.begins_inline);
        let (plugin, grant, limits) = (self.plugin.clone(), call.grant.clone(), call.limits);
        let served = self.clone().serve(call, instance_permit);
        let mut served: Pin<Box<dyn Future<Output = (Outcome, Remains)> + Send>> = Box::pin(served);
        if begins_inline {
            if let Poll::Ready((outcome, remains)) = threads.poll_inline(&writable, served.as_mut())? {
                inline::defer_cleanup(move || drop((remains, permit)));
                return Ok(outcome);
            }
            // Recorded before the end of this call: otherwise further calls would occupy the reading thread too.
            self.last_calls.note(false, &grant);
        }
        let sent = threads.run(permit, writable, move |handle, sender| {
            let (outcome, remains) = handle.block_on(served);
            if sender.send(outcome).is_ok() {
                // The caller may have been woken on this processor, and runs first.
                std::thread::yield_now();
                PluginShared::prewarm_later(&plugin, grant, limits);
            }
            drop(remains);
        });
        sent.await
    }

    async fn serve(
        self: Arc<Self>,
        call: Arc<Call>,
        instance_permit: Option<OwnedSemaphorePermit>,
    ) -> (Outcome, Remains) {
        let ticking = self.plugin.engine.0.clock.keep_ticking();
        let working = Box::pin(self.work(&call, instance_permit.is_some()));
        let ((outcome, instance, was_prewarmed), is_short) = short_call::measure(working).await;
        if !was_prewarmed {
            self.last_calls.note(is_short, &call.grant);
        }
        // A reused instance may serve the next call before this call is cleaned up.
        let instance_permit = instance_permit.filter(|_| instance.is_some());
        (outcome, (instance, instance_permit, ticking))
    }

    /// Returns the outcome, the instance if it is no longer needed, and whether it was prewarmed.
    async fn work(&self, call: &Arc<Call>, is_reused: bool) -> (Outcome, Option<Instance>, bool) {
        let plugin = &self.plugin;
        let rights = is_reused.then(|| InstanceRights::for_call(call));
        let instance = match plugin.take_or_make(call, rights.as_ref()).await {
            Ok(instance) => instance,
            Err(end) => return (Err(self.stopped(end, None, call)), None, false),
        };
        let was_prewarmed = instance.is_prewarmed();
        let nth = plugin.calls.fetch_add(1, Ordering::Relaxed);
        let _considered = PluginShared::consider_optimizing(plugin, nth);
        let (outcome, mut instance) = instance.call(call).await;
        let state = instance.state();
        // Before the caller gets its answer, because the next call may write there.
        call.changes.end();
        call.writable.iter().for_each(Writable::release);
        plugin.log_output(state);
        if state.files.leads_elsewhere {
            self.last_calls.led_elsewhere(&call.grant);
        }
        state.shared.decisions.emit_to(&call.id, &call.events);
        denials::used(&call.notes, state, self.def.hints.read_only);
        let is_alive = outcome.is_ok();
        let outcome = self.outcome(outcome, state, call);
        let may_keep = |reuse: &Reuse| is_alive && reuse.may_keep(&mut instance);
        if plugin.reuse.as_ref().is_some_and(may_keep)
            && let Some(slot) = plugin.engine.idle_slot()
        {
            instance.renew();
            plugin.idle.put(&plugin.engine, instance, slot, rights);
            return (outcome, None, was_prewarmed);
        }
        (outcome, Some(instance), was_prewarmed)
    }

    fn outcome(
        &self,
        outcome: Result<Result<Output, ToolError>, End>,
        state: &GuestState,
        call: &Call,
    ) -> Outcome {
        match outcome {
            Ok(Ok(output)) => guest::to_tool_result(output, self.output(), &call.limits)
                .map_err(|end| self.stopped(end, None, call)),
            Ok(Err(error)) => Err(Failure::ByGuest(self.refusal(error, state, call))),
            Err(end) => Err(self.stopped(end, Some(state), call)),
        }
    }

    fn output(&self) -> Option<&Schema> {
        // The listing has checked that it compiles.
        let compile = || self.def.output.as_ref().and_then(|schema| Schema::compile(schema).ok());
        self.output.get_or_init(compile).as_ref()
    }

    /// Returns a guest's own error, with the lines of program.toml that would have allowed its refused accesses.
    fn refusal(&self, error: ToolError, state: &GuestState, call: &Call) -> ToolError {
        match error {
            ToolError::ExecutionFailed(message) => {
                if state.shared.call.warned {
                    call.notes.timed_out();
                }
                let hints = self.hint_context(call).hints_for_error(state, &message);
                ToolError::ExecutionFailed(with_hints(foreign(&message).into_owned(), hints))
            }
            ToolError::InvalidArguments(message) => {
                ToolError::InvalidArguments(foreign(&message).into_owned())
            }
            host @ ToolError::Host(_) => host,
        }
    }

    /// Returns the failure of a guest that trapped or was stopped, or whose answer is invalid.
    fn stopped(&self, end: End, state: Option<&GuestState>, call: &Call) -> Failure {
        if end.limit == Some(Limit::Time) {
            call.notes.timed_out();
        }
        let context = self.hint_context(call);
        let mut hints = Vec::from_iter(end.limit.and_then(|limit| context.raise_limit_hint(limit)));
        if let Some(state) = state.filter(|_| hints.is_empty()) {
            hints = context.hints_for_end(state);
        }
        Failure::ByHost(end, hints)
    }

    fn hint_context<'a>(&'a self, call: &'a Call) -> HintContext<'a> {
        let Self { def, grant_place: place, .. } = self;
        HintContext { plugin: &call.plugin, place, limits: &call.limits, only_reads: def.hints.read_only }
    }

    fn ended(&self, end: &str) -> ToolError {
        ToolError::Host(format!("`{}` {end}", self.def.name))
    }
}

impl PluginShared {
    /// Prepares a call with work that its guest's thread may not do: loads the component, which may have to be
    /// compiled and cached, and opens the writable directories.
    async fn open_directories(self: &Arc<Self>, grant: &Arc<Grant>) -> Result<Writable, NoAnswer> {
        if self.is_loaded() && !Writable::needs_opening(grant) {
            return Ok(Writable::open(grant, None));
        }
        Self::load_code(self).await?;
        let (grant, storage) = (grant.clone(), self.belongings.options.storage.clone());
        self.engine.threads().own(move || Writable::open(&grant, storage.as_ref())).await
    }

    /// Returns an idle instance for the call, or a new one. `rights` is set if instances serve several calls.
    async fn take_or_make(&self, call: &Arc<Call>, rights: Option<&InstanceRights>) -> Result<Instance, End> {
        if let Some(instance) = self.idle.take(call, rights) {
            return Ok(instance);
        }
        if let Some(reuse) = &self.reuse {
            // The new instance replaces the oldest ones.
            self.idle.shrink(reuse.free());
        }
        let linked = self.linked().map_err(End::new)?;
        Instance::create(&self.engine, linked, &self.belongings, call).await
    }

    fn log_output(&self, state: &GuestState) {
        for (stream, captured) in [("stdout", &state.stdio.stdout), ("stderr", &state.stdio.stderr)] {
            let text = captured.text();
            if !text.is_empty() {
                tracing::info!(plugin = &*self.name, stream, "{text}");
            }
        }
    }
}
