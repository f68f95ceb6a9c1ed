//! A plugin and its tools. Makes a fresh instance for every call, or takes one that was made
//! ahead and never used, and turns whatever the guest does into an answer.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use wasmtime::component::Component;

use super::bindings::PluginPre;
use super::bindings::exports::haft::plugin::tools;
use super::engine::Engine;
use super::failure::LoadError;
use super::instance::Instance;
use super::source::{Digest, Source};
use super::state::{Run, State, bytes};
use super::stock::{IDLE, Stock};
use crate::call::{Attachment, ToolCall, ToolDef, ToolResult};
use crate::event::Events;
use crate::grant::Grant;
use crate::limit::Limits;
use crate::tool::{Context, Tool, ToolError};

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

/// What an instance that works for no call is told.
fn idle_run(plugin: &Arc<str>, limits: &Limits) -> Run {
    Run {
        plugin: plugin.clone(),
        call: String::new(),
        events: Events::none(),
        cancel: CancellationToken::new(),
        deadline: Instant::now() + limits.time,
        logged: 0,
    }
}

/// Where in program.toml a person would grant more; part of every refusal's hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantPlace {
    /// The tool comes with haft and follows `[sandbox]`.
    Sandbox,
    /// The tool is a plugin's and follows its `[plugins.grant]`.
    Plugin,
}

/// One tool of a plugin.
pub struct PluginTool {
    plugin: Plugin,
    def: ToolDef,
    /// The name the plugin itself knows the tool by.
    own_name: String,
    place: GrantPlace,
}

/// One call on its way to a guest.
struct Job {
    call: tools::ToolCall,
    grant: Arc<Grant>,
    limits: Limits,
    events: Events,
    cancel: CancellationToken,
    place: GrantPlace,
}

impl Plugin {
    /// Looks at a component. One that has been seen before is neither compiled nor run for it.
    pub async fn load(engine: &Engine, name: &str, source: Source, limits: &Limits) -> Result<Self, LoadError> {
        let digest = engine.digest(&source).map_err(|error| unreadable(&source, error))?;
        if let Some(known) = engine.cache().and_then(|cache| cache.known(&digest)) {
            let tools = known.tools.into_iter().map(ToolDef::from).collect();
            return Ok(Self::new(engine, name, source, digest, tools, OnceLock::new()));
        }
        let (own, own_name, own_digest, limits) = (engine.clone(), Arc::from(name), digest.clone(), *limits);
        let own_source = source.clone();
        let met = engine.threads().run(move |handle, sender| {
            // Nobody waiting any more is no reason to fail.
            let _ = sender.send(handle.block_on(meet(&own, own_name, &own_source, &own_digest, &limits)));
        });
        let (tools, linked) = met.await.ok_or_else(|| LoadError::Internal("compiling panicked".into()))??;
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
        let restocking = AtomicBool::new(false);
        Self(Arc::new(Inner { name, engine, source, digest, tools, linked, stock, calls, restocking }))
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
        Self { plugin: plugin.clone(), def, own_name: own.name.clone(), place }
    }
}

#[async_trait]
impl Tool for PluginTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        // A tool that says it only reads is held to it.
        let read_only = self.def.hints.read_only;
        let grant = if read_only { context.grant.read_only() } else { context.grant.clone() };
        let cancel = context.cancel.child_token();
        // Whoever stops waiting stops the guest.
        let _stops_with_this_future = cancel.clone().drop_guard();
        let job = Job {
            call: tools::ToolCall {
                id: call.id.clone(),
                tool: self.own_name.clone(),
                arguments: call.arguments.to_string(),
            },
            grant: Arc::new(grant),
            limits: *context.limits,
            events: context.events.clone(),
            cancel,
            place: self.place.clone(),
        };
        let plugin = self.plugin.0.clone();
        let answered = self.plugin.0.engine.threads().run(move |handle, sender| {
            let _ticking = plugin.engine.clock().run();
            let (answer, remains) = handle.block_on(plugin.answer(&job));
            if sender.send(answer).is_ok() {
                Inner::restock_later(&plugin, job.grant, job.limits);
            }
            drop(remains);
        });
        let panicked = || Err(ToolError::ExecutionFailed("the guest's thread panicked; this is a defect of haft".into()));
        let answer = answered.await.unwrap_or_else(panicked);
        answer.map_err(|error| named(&self.def.name, error))
    }
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
        let failed = |message: String| (Err(ToolError::ExecutionFailed(format!("{ENDED}{message}"))), None);
        let instance = match self.instance(job).await {
            Ok(instance) => instance,
            Err(message) => return failed(message),
        };
        self.calls.fetch_add(1, Ordering::Relaxed);
        let used = instance.call(&job.call, self.run(job)).await;
        let state = used.store.data();
        self.log_output(state);
        let answer = match used.outcome {
            Ok(Ok(output)) => result(output, &job.limits),
            Ok(Err(error)) => Err(self.refusal(error, state, &job.place)),
            Err(end) => Err(ToolError::ExecutionFailed(format!("{ENDED}{end}"))),
        };
        (answer, Some(used.store))
    }

    async fn instance(&self, job: &Job) -> Result<Instance, String> {
        if let Some(instance) = self.stock.take(&job.grant) {
            return Ok(instance);
        }
        let linked = self.linked()?;
        Instance::make(&self.engine, linked, job.grant.clone(), &job.limits, self.run(job)).await
    }

    fn run(&self, job: &Job) -> Run {
        Run {
            plugin: self.name.clone(),
            call: job.call.id.clone(),
            events: job.events.clone(),
            cancel: job.cancel.clone(),
            deadline: Instant::now() + job.limits.time,
            logged: 0,
        }
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
            None => recompile(&self.engine, &self.source, &self.digest, &self.tools)?,
        };
        self.engine.link(&component)
    }

    /// Makes instances for the next calls as soon as the plugin is quiet, if it is in use: one
    /// that is called once in a process, as by `haft call`, is not.
    fn restock_later(plugin: &Arc<Self>, grant: Arc<Grant>, limits: Limits) {
        let in_use = plugin.engine.ahead() > 0 && plugin.calls.load(Ordering::Relaxed) > 1;
        if !in_use || !plugin.stock.has_room(&grant) || plugin.restocking.swap(true, Ordering::Relaxed) {
            return;
        }
        let weak = Arc::downgrade(plugin);
        plugin.engine.threads().spawn(async move {
            let Some(plugin) = quiet(&weak).await else { return };
            let engine = plugin.engine.clone();
            engine.threads().start(move |handle| {
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
        while self.stock.has_room(grant) {
            let run = idle_run(&self.name, limits);
            match Instance::make(&self.engine, linked, grant.clone(), limits, run).await {
                Ok(instance) if !instance.has_opened_directories() => self.stock.put(instance),
                // Its directories are those of now; a call must get those of its own time.
                Ok(_) => return,
                Err(error) => return tracing::debug!(error, "instance not made ahead"),
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
    fn refusal(&self, error: tools::ToolError, state: &State, place: &GrantPlace) -> ToolError {
        match error {
            tools::ToolError::InvalidArguments(message) => ToolError::InvalidArguments(message),
            tools::ToolError::ExecutionFailed(mut message) => {
                for hint in super::hints::hints(&self.name, state, place) {
                    // Writing to a `String` cannot fail.
                    let _ = write!(message, "\nhint: {hint}");
                }
                ToolError::ExecutionFailed(message)
            }
        }
    }
}

/// Compiles a component seen for the first time and asks it for its tools, granting nothing.
async fn meet(
    engine: &Engine,
    name: Arc<str>,
    source: &Source,
    digest: &Digest,
    limits: &Limits,
) -> Result<(Vec<ToolDef>, PluginPre<State>), LoadError> {
    let _ticking = engine.clock().run();
    let bytes = source.read().map_err(|error| unreadable(source, error))?;
    let (component, code) = engine.compile(&bytes)?;
    let linked = engine.link(&component)?;
    let grant = Arc::new(Grant::none());
    let instance = Instance::make(engine, &linked, grant, limits, idle_run(&name, limits)).await.map_err(LoadError::Listing)?;
    let tools = super::listing::check(instance.list().await.outcome.map_err(LoadError::Listing)?)?;
    if let (Some(cache), Some(code)) = (engine.cache(), code) {
        cache.learn(digest, code, &tools);
    }
    Ok((tools, linked))
}

/// Compiles a component again whose compiled code was lost, unless it has become another one.
fn recompile(engine: &Engine, source: &Source, digest: &Digest, tools: &[ToolDef]) -> Result<Component, LoadError> {
    let bytes = source.read().map_err(|error| unreadable(source, error))?;
    if Digest::of(&bytes) != *digest {
        return Err(LoadError::Internal("the component has changed since haft started; start haft again".into()));
    }
    let (component, code) = engine.compile(&bytes)?;
    if let (Some(cache), Some(code)) = (engine.cache(), code) {
        cache.learn(digest, code, tools);
    }
    Ok(component)
}

fn unreadable(source: &Source, error: std::io::Error) -> LoadError {
    let path = match source {
        Source::Embedded(_) => "built in".to_owned(),
        Source::File(path) => path.display().to_string(),
    };
    LoadError::Read { path, error }
}

/// A guest's answer as haft's, within the limit.
fn result(output: tools::ToolOutput, limits: &Limits) -> Result<ToolResult, ToolError> {
    let size: usize = output.content.iter().map(size_of).sum::<usize>() + output.structured.as_ref().map_or(0, String::len);
    if size as u64 > limits.result {
        let (size, limit) = (bytes(size as u64), bytes(limits.result));
        return Err(ToolError::ExecutionFailed(format!("{ENDED}returned {size}, more than its result limit of {limit}")));
    }
    let structured = output.structured.map(|text| serde_json::from_str(&text)).transpose();
    let structured = structured.map_err(|error| {
        ToolError::ExecutionFailed(format!("{ENDED}returned structured content that is not JSON: {error}"))
    })?;
    let mut result = ToolResult { structured, ..ToolResult::default() };
    let mut texts = Vec::new();
    for content in output.content {
        match content {
            tools::Content::Text(text) => texts.push(text),
            tools::Content::Binary(tools::Blob { media_type, data }) => {
                texts.push(format!("[{media_type}, {} bytes]", data.len()));
                result.attachments.push(Attachment { media_type, data });
            }
        }
    }
    result.content = texts.join("\n");
    Ok(result)
}

fn size_of(content: &tools::Content) -> usize {
    match content {
        tools::Content::Text(text) => text.len(),
        tools::Content::Binary(blob) => blob.data.len() + blob.media_type.len(),
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").field("name", &self.0.name).field("digest", &self.digest()).finish_non_exhaustive()
    }
}
