//! A plugin and its tools. Makes a fresh instance for every call, or takes one that was made
//! ahead and never used, and turns whatever the guest does into an answer.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::answer;
use super::bindings::PluginPre;
use super::bindings::exports::haft::plugin::tools;
use super::engine::Engine;
use super::failure::{End, LoadError};
use super::hints::Refused;
use super::http::{Injection, Injections};
use super::instance::Instance;
use super::noted;
use super::source::{Digest, Source};
use super::state::{Run, State};
use super::stock::{IDLE, Stock};
use super::threads::Lost;
use super::writable::Writable;
use super::{meet, wall};
use crate::call::{ToolCall, ToolDef, ToolResult};
use crate::event::Events;
use crate::grant::Grant;
use crate::limit::Limits;
use crate::tool::{Context, Notes, Schema, Tool, ToolError};

/// A component that has been looked at. Clones share everything.
#[derive(Clone)]
pub struct Plugin(Arc<Inner>);

struct Inner {
    name: Arc<str>,
    engine: Engine,
    source: Source,
    digest: Digest,
    tools: Vec<ToolDef>,
    linked: OnceLock<Result<PluginPre<State>, String>>,
    injections: Injections,
    stock: Stock,
    calls: AtomicU64,
    restocking: AtomicBool,
}

/// How long a plugin is not called before instances are made for its next calls.
const QUIET: Duration = Duration::from_millis(1);

/// Waits until a plugin has not been called for a moment; nothing when it is gone.
async fn quiet(plugin: &Weak<Inner>) -> Option<Arc<Inner>> {
    loop {
        let before = plugin.upgrade()?.calls.load(Ordering::Relaxed);
        tokio::time::sleep(QUIET).await;
        let plugin = plugin.upgrade()?;
        if plugin.calls.load(Ordering::Relaxed) == before {
            return Some(plugin);
        }
    }
}

/// Where in program.toml a person would grant more; part of every refusal's hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantPlace {
    /// The tool comes with haft and follows `[sandbox]`.
    Sandbox,
    /// The tool is a plugin's and follows its `[plugins.grant]`.
    Plugin,
    /// The tool comes with haft and reaches the hosts of `[builtins] fetch_allow` besides public ones.
    FetchAllow,
    /// The tool comes with haft and reaches the host of `[builtins] search_url`.
    SearchUrl,
}

/// One tool of a plugin.
pub struct PluginTool {
    plugin: Plugin,
    def: ToolDef,
    /// The name the plugin itself knows the tool by.
    own_name: String,
    place: GrantPlace,
    /// What its data must fit; compiled at the first call.
    output: OnceLock<Option<Arc<Schema>>>,
}

/// One call on its way to a guest.
struct Job {
    call: tools::ToolCall,
    output: Option<Arc<Schema>>,
    grant: Arc<Grant>,
    writable: Writable,
    limits: Limits,
    events: Events,
    cancel: CancellationToken,
    notes: Notes,
    place: GrantPlace,
    only_reads: bool,
}

impl Plugin {
    /// Looks at a component. One that has been seen before is neither compiled nor run for it.
    pub async fn load(
        engine: &Engine,
        name: &str,
        source: Source,
        limits: &Limits,
    ) -> Result<Self, LoadError> {
        let digest = engine.digest(&source).map_err(|error| meet::unreadable(&source, error))?;
        if let Some(known) = engine.cache().and_then(|cache| cache.known(&digest)) {
            let tools = known.tools.into_iter().map(ToolDef::from).collect();
            return Ok(Self::new(engine, name, source, digest, tools, OnceLock::new()));
        }
        let (tools, linked) = meet::meet(engine, name, &source, &digest, limits).await?;
        Ok(Self::new(engine, name, source, digest, tools, OnceLock::from(Ok(linked))))
    }

    fn new(
        engine: &Engine,
        name: &str,
        source: Source,
        digest: Digest,
        tools: Vec<ToolDef>,
        linked: OnceLock<Result<PluginPre<State>, String>>,
    ) -> Self {
        let (engine, name) = (engine.clone(), Arc::from(name));
        let (stock, calls) = (Stock::new(engine.ahead()), AtomicU64::new(0));
        let (injections, restocking) = (Injections::default(), AtomicBool::new(false));
        Self(Arc::new(Inner {
            name,
            engine,
            source,
            digest,
            tools,
            linked,
            injections,
            stock,
            calls,
            restocking,
        }))
    }

    /// The same plugin, with headers that haft adds to its requests and the plugin never sees.
    /// They grant nothing: a host must be granted as well.
    #[must_use]
    pub fn with_injections(self, injections: impl IntoIterator<Item = Injection>) -> Self {
        let own = &*self.0;
        let (source, digest) = (own.source.clone(), own.digest.clone());
        let (tools, linked) = (own.tools.clone(), own.linked.clone());
        let same = Self::new(&own.engine, &own.name, source, digest, tools, linked);
        let Some(inner) = Arc::into_inner(same.0) else { return self };
        Self(Arc::new(Inner { injections: injections.into_iter().collect(), ..inner }))
    }

    /// The tools it lists, by the names it gives them.
    pub fn tools(&self) -> &[ToolDef] {
        &self.0.tools
    }

    /// SHA-256 of the component, in hexadecimal.
    pub fn digest(&self) -> &str {
        self.0.digest.as_str()
    }
}

impl PluginTool {
    /// The tool that `plugin` lists as `own`, under another name.
    pub fn new(plugin: &Plugin, own: &ToolDef, exposed: String, place: GrantPlace) -> Self {
        let def = ToolDef { name: exposed, ..own.clone() };
        Self { plugin: plugin.clone(), def, own_name: own.name.clone(), place, output: OnceLock::new() }
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

    fn digest(&self) -> Option<&str> {
        Some(self.plugin.digest())
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        // A tool that says it only reads is held to it.
        let only_reads = self.def.hints.read_only;
        noted::narrowed(context.notes, only_reads && *context.grant != context.grant.read_only());
        let grant = if only_reads { context.grant.read_only() } else { context.grant.clone() };
        let cancel = context.cancel.child_token();
        // Whoever stops waiting stops the guest.
        let _stops_with_this_future = cancel.clone().drop_guard();
        let grant = Arc::new(grant);
        let plugin = self.plugin.0.clone();
        let ready = plugin.prepare(&grant).await;
        let writable = ready.map_err(|lost| named(&self.def.name, lost_error(&lost)))?;
        let job = Job {
            call: tools::ToolCall {
                id: call.id.clone(),
                tool: self.own_name.clone(),
                arguments: call.arguments.to_string(),
            },
            output: self.output(),
            grant,
            writable,
            limits: *context.limits,
            events: context.events.clone(),
            cancel,
            notes: context.notes.clone(),
            place: self.place.clone(),
            only_reads,
        };
        let own = self.plugin.0.clone();
        let answered = own.engine.threads().run(job.writable.clone(), move |handle, sender| {
            let _ticking = plugin.engine.clock().run();
            let (answer, remains) = handle.block_on(plugin.answer(&job));
            if sender.send(answer).is_ok() {
                Inner::restock_later(&plugin, job.grant, job.limits);
            }
            drop(remains);
        });
        let answer = answered.await.unwrap_or_else(|lost| Err(lost_error(&lost)));
        answer.map_err(|error| named(&self.def.name, error))
    }
}

/// What became of a call whose guest was never heard of.
fn lost_error(lost: &Lost) -> ToolError {
    ToolError::ExecutionFailed(format!("{ENDED}did not run: {lost}"))
}

/// An error of a guest's end starts with whose end it was.
fn named(tool: &str, error: ToolError) -> ToolError {
    match error {
        ToolError::ExecutionFailed(message) => match message.strip_prefix(ENDED) {
            Some(end) => ToolError::ExecutionFailed(format!("`{tool}` {end}")),
            None => ToolError::ExecutionFailed(message),
        },
        error @ ToolError::InvalidArguments(_) => error,
    }
}

/// Marks a message of haft about a guest, as against one of the guest's own.
const ENDED: &str = "\u{0}";

impl Inner {
    /// Does one job, and returns what is left to be cleared away when the caller has its answer.
    async fn answer(&self, job: &Job) -> (Result<ToolResult, ToolError>, Option<wasmtime::Store<State>>) {
        let instance = match self.instance(job).await {
            Ok(instance) => instance,
            Err(end) => return (Err(self.ended(&end, None, job)), None),
        };
        self.calls.fetch_add(1, Ordering::Relaxed);
        let used = instance.call(&job.call, (self.run(job), job.writable.clone())).await;
        let state = used.store.data();
        self.log_output(state);
        state.http.decisions().tell(&job.call.id, &job.events);
        noted::used(&job.notes, state);
        let answer = match used.outcome {
            Ok(Ok(output)) => answer::of(output, job.output.as_deref(), &job.limits)
                .map_err(|end| self.ended(&end, None, job)),
            Ok(Err(error)) => Err(self.refusal(error, state, job)),
            Err(end) => Err(self.ended(&end, Some(state), job)),
        };
        (answer, Some(used.store))
    }

    async fn instance(&self, job: &Job) -> Result<Instance, End> {
        if let Some(instance) = self.stock.take(&job.grant, &job.limits) {
            return Ok(instance);
        }
        let linked = self.linked().map_err(End::new)?;
        let call = (self.run(job), Some(job.writable.clone()));
        let injections = self.injections.clone();
        Instance::make(&self.engine, linked, job.grant.clone(), injections, &job.limits, call).await
    }

    /// Does what a call needs and its guest's thread has no right to, or no business with: loading the
    /// component, which may have to be compiled and kept, and opening what the call may write.
    async fn prepare(self: &Arc<Self>, grant: &Arc<Grant>) -> Result<Writable, Lost> {
        if self.linked.get().is_some() && !Writable::needs_opening(grant) {
            return Ok(Writable::open(grant));
        }
        let (plugin, grant) = (self.clone(), grant.clone());
        let prepared = self.engine.threads().own(move || {
            // What went wrong with it is told by the call.
            let _ = plugin.linked();
            Writable::open(&grant)
        });
        prepared.await
    }

    fn run(&self, job: &Job) -> Run {
        Run::new(self.name.clone(), job.call.id.clone(), job.events.clone(), job.cancel.clone(), &job.limits)
    }

    /// The component, loaded at its first use.
    fn linked(&self) -> Result<&PluginPre<State>, String> {
        let load = || self.load().map_err(|error| format!("cannot be loaded: {error}"));
        self.linked.get_or_init(load).as_ref().map_err(String::clone)
    }

    fn load(&self) -> Result<PluginPre<State>, LoadError> {
        let known = self.engine.cache().and_then(|cache| Some((cache, cache.known(&self.digest)?)));
        let kept = known.and_then(|(cache, known)| cache.load(self.engine.wasmtime(), &known.code));
        let component = match kept {
            Some(component) => component,
            None => meet::recompile(&self.engine, &self.source, &self.digest, &self.tools)?,
        };
        self.engine.link(&component)
    }

    /// Makes instances for the next calls as soon as the plugin is quiet, if it is in use: one
    /// that is called once in a process, as by `haft call`, is not.
    fn restock_later(plugin: &Arc<Self>, grant: Arc<Grant>, limits: Limits) {
        let in_use = plugin.engine.ahead() > 0 && plugin.calls.load(Ordering::Relaxed) > 1;
        if !in_use
            || !plugin.stock.has_room(&grant, &limits)
            || plugin.restocking.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let weak = Arc::downgrade(plugin);
        plugin.engine.threads().spawn(async move {
            let Some(plugin) = quiet(&weak).await else { return };
            let engine = plugin.engine.clone();
            // Nobody has called: whatever a guest does before, it does without a directory.
            engine.threads().start(&wall::nowhere(), move |handle| {
                handle.block_on(plugin.restock(&grant, &limits));
                plugin.restocking.store(false, Ordering::Relaxed);
            });
            tokio::time::sleep(IDLE).await;
            if let Some(plugin) = weak.upgrade() {
                plugin.stock.expire();
            }
        });
    }

    async fn restock(&self, grant: &Arc<Grant>, limits: &Limits) {
        let _ticking = self.engine.clock().run();
        let Ok(linked) = self.linked() else { return };
        while self.stock.has_room(grant, limits) {
            let call = (Run::idle(&self.name, limits), None);
            let injections = self.injections.clone();
            match Instance::make(&self.engine, linked, grant.clone(), injections, limits, call).await {
                Ok(instance) if !instance.has_reached_out() => self.stock.put(instance),
                // It was given no directory, and what it asked of the network was for nobody.
                Ok(_) => return,
                Err(end) => return tracing::debug!(end.line, "instance not made ahead"),
            }
        }
    }

    fn log_output(&self, state: &State) {
        for (stream, captured) in [("stdout", &state.stdout), ("stderr", &state.stderr)] {
            let text = captured.text();
            if !text.is_empty() {
                tracing::info!(plugin = &*self.name, stream, "{text}");
            }
        }
    }

    /// A guest's own error, with the lines of program.toml that would have allowed what it tried.
    fn refusal(&self, error: tools::ToolError, state: &State, job: &Job) -> ToolError {
        match error {
            tools::ToolError::InvalidArguments(message) => ToolError::InvalidArguments(message),
            tools::ToolError::ExecutionFailed(message) => {
                let hints = self.refused(job).of_error(state, &message);
                ToolError::ExecutionFailed(with_hints(message, hints))
            }
        }
    }

    fn refused<'a>(&'a self, job: &'a Job) -> Refused<'a> {
        Refused { plugin: &self.name, place: &job.place, limits: &job.limits, only_reads: job.only_reads }
    }

    /// The same of a guest that ended without a word of its own, or whose answer is of no use.
    fn ended(&self, end: &End, state: Option<&State>, job: &Job) -> ToolError {
        noted::ended(&job.notes, end);
        let refused = self.refused(job);
        let more = end.limit.and_then(|limit| refused.more(limit));
        let mut hints: Vec<String> = more.into_iter().collect();
        if let Some(state) = state.filter(|_| hints.is_empty()) {
            hints = refused.of_end(state, &end.line);
        }
        ToolError::ExecutionFailed(with_hints(format!("{ENDED}{}", end.line), hints))
    }
}

/// A message, and below it the hints, one a line.
fn with_hints(mut message: String, hints: Vec<String>) -> String {
    for hint in hints {
        // Writing to a `String` cannot fail.
        let _ = write!(message, "\nhint: {hint}");
    }
    message
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.0.name)
            .field("digest", &self.digest())
            .finish_non_exhaustive()
    }
}
