//! A tool of a plugin: runs each call in a fresh, a prewarmed or, where `[plugins.reuse]` asks for it, a reused
//! instance, and turns what the guest does into a tool result.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::contract::{Arguments, Request, held};
use super::failure::End;
use super::instance::{Instance, Used};
use super::threads::NoAnswer;
use crate::contract::answer;
use crate::denials::grant_place::GrantPlace;
use crate::denials::hints::{HintContext, with_hints};
use crate::denials::journal_notes;
use crate::instance::reuse::{InstancePermit, InstanceRights, NoInstance, Reuse};
use crate::instance::state::{GuestState, Run};
use crate::plugin::{Plugin, PluginShared};
use crate::threads::epoch::EpochTicks;
use crate::threads::permits::{NoPermit, Permit};
use crate::threads::shares::Tenant;
use crate::threads::short_call::{self, InlineTime, LastCalls};
use crate::threads::writable::Writable;
use crate::wasi::files::named;
use haft_core::call::{ToolCall, ToolDef, ToolResult};
use haft_core::event::Events;
use haft_core::grant::{Grant, Reach};
use haft_core::limit::Limits;
use haft_core::tool::inline::{self, ThreadLoad};
use haft_core::tool::{
    Context, Notes, Preparation, Schema, Subject, SubjectArgument, Tool, ToolError, foreign,
};
use haft_core::trace::TraceParent;
use haft_core::undo::Changes;

/// One tool of a plugin.
pub struct PluginTool {
    plugin: Plugin,
    def: ToolDef,
    /// The name the plugin itself knows the tool by.
    own_name: String,
    grant_place: GrantPlace,
    about: SubjectArgument,
    /// What its data must fit; compiled at the first call.
    output: OnceLock<Option<Arc<Schema>>>,
    last_calls: Arc<LastCalls>,
}

/// One call on its way to a guest.
struct Job {
    request: Request,
    output: Option<Arc<Schema>>,
    grant: Arc<Grant>,
    writable: Writable,
    limits: Limits,
    events: Events,
    cancel: CancellationToken,
    notes: Notes,
    grant_place: GrantPlace,
    only_reads: bool,
    /// Where the plugin's instances serve several calls.
    instance_permit: Option<InstancePermit>,
    /// Whether the guest begins on the thread that read the call.
    runs_inline: bool,
    /// What its requests are a part of.
    trace: Option<TraceParent>,
    /// Whether a person approved of it.
    approved: bool,
    caller: Option<Arc<str>>,
    changes: Changes,
}

/// Why a call has no result.
enum CallFailure {
    /// The guest returned an error.
    ByGuest(ToolError),
    /// The guest trapped, was stopped, or never began; with the lines of program.toml that would have allowed it more.
    ByHost(End, Vec<String>),
}

/// What a call came to.
type CallOutcome = Result<ToolResult, CallFailure>;

/// A call at work.
type Work = Pin<Box<dyn Future<Output = (CallOutcome, Cleanup)> + Send>>;

/// What is dropped once the caller has its answer.
struct Cleanup {
    plugin: Arc<PluginShared>,
    job: Job,
    instance: Option<Instance>,
    _ticking: EpochTicks,
}

impl PluginTool {
    /// The tool that `plugin` lists as `own`, under another name.
    pub fn new(plugin: &Plugin, own: &ToolDef, exposed: String, grant_place: GrantPlace) -> Self {
        let def = ToolDef { name: exposed, ..own.clone() };
        let (plugin, own_name, output) = (plugin.clone(), own.name.clone(), OnceLock::new());
        let about = SubjectArgument::All;
        Self { plugin, def, own_name, grant_place, about, output, last_calls: Arc::default() }
    }

    /// The same, whose calls are about what `about` says.
    #[must_use]
    pub fn about(self, about: SubjectArgument) -> Self {
        Self { about, ..self }
    }

    /// Waits until the plugin may serve one more call.
    async fn acquire_instance(
        &self,
        reuse: &Reuse,
        context: &Context<'_>,
    ) -> Result<InstancePermit, ToolError> {
        let instance_permit = reuse.acquire(context.limits, context.cancel).await;
        instance_permit.map_err(|none| {
            if matches!(none, NoInstance::Busy { .. }) {
                context.notes.timed_out();
            }
            self.ended(&none.to_string())
        })
    }

    /// Waits until one more guest of the plugin may be at work for the client.
    async fn acquire_permit(&self, call: &ToolCall, context: &Context<'_>) -> Result<Permit, ToolError> {
        let plugin = &self.plugin.0;
        let tenant = Tenant { plugin: plugin.number, client: context.client };
        let bytes = || held(&call.arguments);
        let permit =
            plugin.engine.threads().acquire(tenant, bytes, context.limits.time, context.cancel).await;
        permit.map_err(|no_answer| {
            if matches!(no_answer, NoAnswer::NoPermit(NoPermit::Busy { .. })) {
                context.notes.timed_out();
            }
            self.no_answer_error(&no_answer)
        })
    }

    /// Runs a job: inline on the calling thread where that is enabled and the call is short, else on a guests' thread.
    async fn run(&self, job: Job, permit: Permit) -> Result<CallOutcome, NoAnswer> {
        let (runs_inline, writable) = (job.runs_inline, job.writable.clone());
        let mut work = self.work(job);
        let threads = self.plugin.0.engine.threads();
        if runs_inline {
            if let Poll::Ready((answer, cleanup)) = threads.begin(&writable, work.as_mut())? {
                inline::defer_cleanup(move |load| cleanup.clear_here(permit, load));
                return Ok(answer);
            }
            // At once: until this call ends, others would take as long of the thread that read them.
            self.last_calls.note(false);
        }
        let answered = threads.run(permit, writable, move |handle, sender| {
            let (answer, cleanup) = handle.block_on(work);
            cleanup.clear(sender.send(answer).is_ok());
        });
        answered.await
    }

    /// The rights of a call: a tool that says it only reads gets no right to write, which the journal records.
    fn narrowed_grant(&self, context: &Context<'_>) -> Grant {
        let only_reads = self.def.hints.read_only;
        journal_notes::narrowed(context.notes, only_reads && *context.grant != context.grant.read_only());
        if only_reads { context.grant.read_only() } else { context.grant.clone() }
    }

    fn job(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
        (grant, writable): (Arc<Grant>, Writable),
        (cancel, instance_permit): (CancellationToken, Option<InstancePermit>),
    ) -> Job {
        let (id, tool) = (call.id.clone(), self.own_name.clone());
        let (arguments, paths) =
            (Arguments::new(self.plugin.contract(), &call.arguments), named(&call.arguments));
        Job {
            request: Request { id, tool, arguments, paths, result_limit: context.limits.result },
            output: self.output(),
            grant,
            writable,
            limits: *context.limits,
            events: context.events.clone(),
            cancel,
            notes: context.notes.clone(),
            grant_place: self.grant_place.clone(),
            only_reads: self.def.hints.read_only,
            instance_permit,
            runs_inline: self.may_run_inline(context.grant),
            trace: context.caller.trace().parent().cloned(),
            approved: context.approved,
            caller: context.caller.name().map(Arc::from),
            changes: context.caller.keeper().call(),
        }
    }

    fn work(&self, mut job: Job) -> Work {
        let (plugin, last_calls) = (self.plugin.0.clone(), self.last_calls.clone());
        Box::pin(async move {
            let ticking = plugin.engine.clock().run();
            let ((answer, instance), is_short) = short_call::measure(Box::pin(plugin.answer(&job))).await;
            if instance.is_none() {
                // An instance that was kept may serve the next call before this one is cleaned up.
                job.instance_permit = None;
            }
            last_calls.note(is_short);
            (answer, Cleanup { plugin, job, instance, _ticking: ticking })
        })
    }

    /// The error of a call whose guest sent no answer.
    fn no_answer_error(&self, no_answer: &NoAnswer) -> ToolError {
        match no_answer {
            NoAnswer::NoPermit(none) => self.ended(&none.to_string()),
            no_answer => self.ended(&format!("did not run: {no_answer}")),
        }
    }

    /// An error of haft's own about this call.
    fn ended(&self, end: &str) -> ToolError {
        ToolError::Host(format!("`{}` {end}", self.def.name))
    }

    fn output(&self) -> Option<Arc<Schema>> {
        // That it can be compiled was checked when it was listed.
        let compile =
            || self.def.output.as_ref().and_then(|schema| Schema::compile(schema).ok()).map(Arc::new);
        self.output.get_or_init(compile).clone()
    }
}

#[async_trait]
impl Tool for PluginTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn file<'a>(&self, arguments: &'a Value) -> Option<&'a str> {
        self.about.path(arguments)
    }

    fn subject(&self, arguments: &Value) -> Subject {
        self.about.subject(arguments)
    }

    fn may_run_inline(&self, grant: &Grant) -> bool {
        let plugin = &self.plugin.0;
        // A guest with a directory can block on a disk or a pipe.
        self.last_calls.were_short()
            && plugin.is_loaded()
            && !Writable::needs_opening(grant)
            && grant.preopens().is_empty()
    }

    /// A guest writes where its grant says, sends to the hosts of its grant, and keeps things of its own; there is no
    /// fourth way out.
    fn may_have_effects(&self, grant: &Grant) -> bool {
        let may_write = !matches!(grant.writable(), Reach::Roots(roots) if roots.is_empty());
        may_write && !self.def.hints.read_only || !grant.hosts().is_empty() || grant.state().is_some()
    }

    fn keeps_changes(&self) -> bool {
        true
    }

    fn preparation(&self) -> Option<Preparation<'_>> {
        let plugin = &self.plugin.0;
        if plugin.is_loaded() {
            return None;
        }
        // The call tries again where there was no thread for it, and tells why.
        Some(Box::pin(async { _ = PluginShared::load_code(plugin).await }))
    }

    fn digest(&self) -> Option<&str> {
        Some(self.plugin.digest())
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let grant = Arc::new(self.narrowed_grant(context));
        let cancel = context.cancel.child_token();
        // Dropping this future stops the guest.
        let _stops_with_this_future = cancel.clone().drop_guard();
        let plugin = self.plugin.0.clone();
        let instance_permit = match &plugin.reuse {
            Some(reuse) => Some(self.acquire_instance(reuse, context).await?),
            None => None,
        };
        // Before anything is opened: a call that waits holds its arguments and no more.
        let permit = self.acquire_permit(call, context).await?;
        let writable = plugin.prepare(&grant).await.map_err(|no_answer| self.no_answer_error(&no_answer))?;
        let job = self.job(call, context, (grant, writable), (cancel, instance_permit));
        let ran = self.run(job, permit).await;
        plugin.name_profile().await;
        match ran.map_err(|no_answer| self.no_answer_error(&no_answer))? {
            Ok(result) => Ok(result),
            Err(CallFailure::ByGuest(error)) => Err(error),
            Err(CallFailure::ByHost(end, hints)) => {
                Err(self.ended(&with_hints(plugin.told(&end).await, hints)))
            }
        }
    }
}

impl Cleanup {
    /// Drops the instance, and prewarms others if the caller received the answer.
    fn clear(self, prewarm: bool) {
        let Self { plugin, job, instance, _ticking } = self;
        if prewarm {
            // The caller may have been woken on this very processor: it goes first.
            std::thread::yield_now();
            PluginShared::prewarm_later(&plugin, job.grant, job.limits);
        }
        drop(instance);
        // Now the next call may have an instance.
        drop(job.instance_permit);
    }

    /// Drops the instance after an inline call: on this thread, or on another one if the next call is waiting and there
    /// is a processor for it.
    fn clear_here(self, permit: Permit, load: ThreadLoad) {
        let Self { plugin, job, instance, _ticking } = self;
        let to_drop = instance.into_iter().filter_map(|instance| match load {
            ThreadLoad::Idle | ThreadLoad::Saturated => Some(instance),
            ThreadLoad::Busy => PluginShared::discard_later(&plugin, instance, &job.grant, job.limits),
        });
        drop((to_drop.last(), permit));
        PluginShared::prewarm_here(&plugin, &job.grant, &job.limits, load);
    }
}

impl PluginShared {
    /// Runs one job. Returns its outcome, and the instance where it is to be dropped once the caller has its answer.
    async fn answer(self: &Arc<Self>, job: &Job) -> (CallOutcome, Option<Instance>) {
        let rights = || InstanceRights::for_call(job.caller.clone(), &job.grant, &job.writable);
        let rights = job.instance_permit.as_ref().map(|_| rights());
        let instance = match self.instance(job, rights.as_ref()).await {
            Ok(instance) => instance,
            Err(end) => return (Err(self.ended(end, None, job)), None),
        };
        let nth = self.calls.fetch_add(1, Ordering::Relaxed);
        let _considered = Self::consider_optimizing(self, nth);
        let Used { outcome, instance } =
            instance.call(&job.request, (self.run(job), job.writable.clone())).await;
        let state = instance.state();
        // Before the caller has its answer: the next call may write there.
        job.changes.end();
        job.writable.release();
        self.log_output(state);
        state.http.decisions().emit_to(&job.request.id, &job.events);
        journal_notes::used(&job.notes, state, job.only_reads);
        let is_alive = outcome.is_ok();
        let answer = match outcome {
            Ok(Ok(output)) => answer::to_tool_result(output, job.output.as_deref(), &job.limits)
                .map_err(|end| self.ended(end, None, job)),
            Ok(Err(error)) => Err(CallFailure::ByGuest(self.refusal(error, state, job))),
            Err(end) => Err(self.ended(end, Some(state), job)),
        };
        let (Some(reuse), Some(rights)) = (&self.reuse, rights.filter(|_| is_alive)) else {
            return (answer, Some(instance));
        };
        (answer, reuse.keep((&self.engine, &self.name), instance, rights))
    }

    async fn instance(&self, job: &Job, rights: Option<&InstanceRights>) -> Result<Instance, End> {
        let available = match (&self.reuse, rights) {
            (Some(reuse), Some(rights)) => reuse.take(&job.grant, &job.limits, rights),
            _ => self.warm_pool.take(&job.grant, &job.limits),
        };
        if let Some(instance) = available {
            return Ok(instance);
        }
        let linked = self.linked().map_err(End::new)?;
        let call = (self.run(job), Some(job.writable.clone()));
        let belongings = self.belongings.clone();
        Instance::create(&self.engine, linked, job.grant.clone(), belongings, &job.limits, call).await
    }

    /// Does what a call needs and its guest's thread may not do: loads the component, which may have to be compiled and
    /// cached, and opens the writable directories.
    async fn prepare(self: &Arc<Self>, grant: &Arc<Grant>) -> Result<Writable, NoAnswer> {
        if self.is_loaded() && !Writable::needs_opening(grant) {
            return Ok(Writable::open(grant, None));
        }
        Self::load_code(self).await?;
        let (grant, storage) = (grant.clone(), self.belongings.options.storage.clone());
        self.engine.threads().own(move || Writable::open(&grant, storage.as_ref())).await
    }

    fn run(&self, job: &Job) -> Run {
        let (name, call) = (self.name.clone(), job.request.id.clone());
        let run = Run::new(name, call, job.events.clone(), job.cancel.clone(), &job.limits);
        let (trace, approved, changes) = (job.trace.clone(), job.approved, job.changes.clone());
        Run { inline_time: job.runs_inline.then(InlineTime::begin), trace, approved, changes, ..run }
    }

    fn log_output(&self, state: &GuestState) {
        for (stream, captured) in [("stdout", &state.stdout), ("stderr", &state.stderr)] {
            let text = captured.text();
            if !text.is_empty() {
                tracing::info!(plugin = &*self.name, stream, "{text}");
            }
        }
    }

    /// A guest's own error, with the lines of program.toml that would have allowed what it tried.
    fn refusal(&self, error: ToolError, state: &GuestState, job: &Job) -> ToolError {
        match error {
            ToolError::ExecutionFailed(message) => {
                if state.run.warned {
                    job.notes.timed_out();
                }
                let hints = self.hint_context(job).hints_for_error(state, &message);
                ToolError::ExecutionFailed(with_hints(foreign(&message).into_owned(), hints))
            }
            ToolError::InvalidArguments(message) => {
                ToolError::InvalidArguments(foreign(&message).into_owned())
            }
            host @ ToolError::Host(_) => host,
        }
    }

    fn hint_context<'a>(&'a self, job: &'a Job) -> HintContext<'a> {
        let Job { grant_place: place, limits, only_reads, .. } = job;
        HintContext { plugin: &self.name, place, limits, only_reads: *only_reads }
    }

    /// The failure of a guest that trapped or was stopped, or whose answer cannot be used.
    fn ended(&self, end: End, state: Option<&GuestState>, job: &Job) -> CallFailure {
        journal_notes::ended(&job.notes, &end);
        let context = self.hint_context(job);
        let mut hints = Vec::from_iter(end.limit.and_then(|limit| context.raise_limit_hint(limit)));
        if let Some(state) = state.filter(|_| hints.is_empty()) {
            hints = context.hints_for_end(state);
        }
        CallFailure::ByHost(end, hints)
    }
}
