//! A plugin: a component whose tools are known. Its code is loaded or compiled at the first call, and compiled again with
//! optimizations if a quickly compiled plugin is called often or for long.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};
use wasmtime::component::Component;

use super::contract::Contract;
use super::engine::Engine;
use super::failure::{End, LoadError};
use crate::component::compile::Tier;
use crate::component::discover::{self, Code, Discovered, Identity};
use crate::component::listing::Uncallable;
use crate::component::offered;
use crate::component::source::{Digest, Source};
use crate::contract::linked::LinkedComponent;
use crate::debug::Recorder;
use crate::debug::frame::Frame;
use crate::debug::symbols::Symbols;
use crate::instance::idle::{self, IdleInstances, Reuse};
use crate::options::{Belongings, PluginOptions};
use crate::threads::NoAnswer;
use crate::threads::permits::Tenant;
use haft_core::call::{Offers, ToolDef};
use haft_core::limit::Limits;

/// Number of calls in one process after which quick code is optimized: fewer calls take less time than the compilation.
const MANY: u64 = 32;

/// Duration of a call from which optimized code pays off for the next one.
const LONG: Duration = Duration::from_secs(1);

/// Maximum number of reads of a component that a build replaces meanwhile.
const MAX_READS: usize = 3;

/// A component whose tools are known. Clones share all state.
#[derive(Clone)]
pub struct Plugin(pub(super) Arc<PluginShared>);

pub(super) struct PluginShared {
    pub(super) name: Arc<str>,
    pub(super) number: u64,
    pub(super) engine: Engine,
    pub(super) discovered: Arc<Discovered>,
    code: OnceLock<Result<Code, String>>,
    /// The optimized code, if the first code was compiled quickly.
    optimized: OnceLock<Code>,
    is_optimizing: AtomicBool,
    pub(super) belongings: Belongings,
    symbols: Symbols,
    pub(super) reuse: Option<Reuse>,
    pub(super) idle: Arc<IdleInstances>,
    pub(super) calls: AtomicU64,
    pub(super) is_prewarming: AtomicBool,
}

impl Plugin {
    /// Discovers the tools of a component: from its record, from the cache, or by compiling it and listing them in
    /// an instance without rights.
    ///
    /// # Errors
    /// The component cannot be read, differs from the pinned one, fits no contract, or lists unusable tools.
    pub async fn load(
        engine: &Engine,
        name: &str,
        source: Source,
        limits: &Limits,
    ) -> Result<Self, LoadError> {
        for _ in 0..MAX_READS {
            let identity = Identity::of(engine, source.clone())?;
            let found = match identity.known(engine) {
                Some(listing) => Ok((identity.listed(listing), None)),
                None => identity.compile_and_list(engine, name, limits).await,
            };
            match found {
                // A build has replaced the file between its digest and its compilation.
                Err(LoadError::Changed) => {}
                found => return found.map(|(discovered, code)| Self::found(engine, name, discovered, code)),
            }
        }
        Err(LoadError::Changed)
    }

    /// Returns the plugin of a component whose tools are recorded or in the cache; `None` for any other component.
    ///
    /// # Errors
    /// The component cannot be read, or differs from the pinned one.
    pub fn from_cache(engine: &Engine, name: &str, source: Source) -> Result<Option<Self>, LoadError> {
        let identity = Identity::of(engine, source)?;
        let known = identity.known(engine);
        Ok(known.map(|listing| Self::found(engine, name, identity.listed(listing), None)))
    }

    /// Returns the definitions ([`Plugin::definitions`]) of the component with this SHA-256, in hexadecimal, from
    /// the cache; its file need not exist any more.
    pub fn remembered(engine: &Engine, digest: &str, name: &str) -> Option<Vec<ToolDef>> {
        Some(engine.cache()?.lookup(&Digest::from_hex(digest))?.listing.definitions(name))
    }

    fn found(engine: &Engine, name: &str, discovered: Discovered, code: Option<Code>) -> Self {
        let code = (code.map(|code| OnceLock::from(Ok(code))).unwrap_or_default(), OnceLock::new());
        Self::new(engine, name.into(), Arc::new(discovered), code, PluginOptions::default())
    }

    /// Returns the component with `options`, which replace all earlier options, and without instances.
    #[must_use]
    pub fn with(&self, options: PluginOptions) -> Self {
        let PluginShared { engine, name, discovered, code, optimized, .. } = &*self.0;
        let code = (code.clone(), optimized.clone());
        Self::new(engine, name.clone(), discovered.clone(), code, options)
    }

    fn new(
        engine: &Engine,
        name: Arc<str>,
        discovered: Arc<Discovered>,
        (code, optimized): (OnceLock<Result<Code, String>>, OnceLock<Code>),
        options: PluginOptions,
    ) -> Self {
        let max_idle = options.reuse.map_or(idle::PREWARMED, |settings| settings.max_idle);
        let reuse = options.reuse.map(Reuse::new);
        let belongings = Belongings { options, classes: discovered.listing.classes.as_slice().into() };
        Self(Arc::new(PluginShared {
            name,
            number: Tenant::plugin(),
            engine: engine.clone(),
            discovered,
            code,
            optimized,
            is_optimizing: AtomicBool::default(),
            belongings,
            symbols: Symbols::default(),
            reuse,
            idle: Arc::new(IdleInstances::new(max_idle)),
            calls: AtomicU64::new(0),
            is_prewarming: AtomicBool::default(),
        }))
    }

    /// Returns the number of idle instances: a prewarmed one, or the reused ones.
    pub fn waiting_instances(&self) -> usize {
        self.0.idle.count()
    }

    /// Returns the plugin's tools, by their original names.
    pub fn tools(&self) -> &[ToolDef] {
        &self.0.discovered.listing.tools
    }

    /// Returns the plugin's prompts and resources, by their original names and paths.
    pub fn offers(&self) -> &Offers {
        &self.0.discovered.listing.offers
    }

    /// Returns the original names of its tools, prompts and resources.
    pub fn own_names(&self) -> Vec<String> {
        let offers = offered::own_names(self.offers());
        self.tools().iter().map(|tool| tool.name.clone()).chain(offers).collect()
    }

    /// Returns the definitions of the plugin's tools, prompts and resources that consent covers, for a program
    /// that calls the plugin `name`.
    pub fn definitions(&self, name: &str) -> Vec<ToolDef> {
        self.0.discovered.listing.definitions(name)
    }

    /// Returns the exported functions that cannot be tools, with the reasons.
    pub fn uncallable(&self) -> &[Uncallable] {
        &self.0.discovered.listing.uncallable
    }

    /// Returns the JSON Schema of the plugin's configuration, if it has one.
    pub fn config_schema(&self) -> Option<&Value> {
        self.0.discovered.listing.config.as_ref()
    }

    /// Returns the plugin's listing as text for [`Source::Packed`]. The text depends only on the component.
    ///
    /// # Errors
    /// The text cannot be written, which does not happen for text that was parsed.
    pub fn record(&self) -> serde_json::Result<String> {
        discover::write_record(&self.0.discovered.digest, &self.0.discovered.listing)
    }

    /// Returns the contract of the component.
    pub fn contract(&self) -> Contract {
        self.0.discovered.listing.contract
    }

    /// Returns the SHA-256 of the component, in hexadecimal.
    pub fn digest(&self) -> &str {
        self.0.discovered.digest.as_str()
    }
}

// The information about calls for a plugin's author, read from the component's file, which no guest's thread opens.

impl PluginShared {
    /// Resolves the functions in which the guest was sampled, if a profile is recorded.
    pub(crate) async fn name_profile(self: &Arc<Self>) {
        let Some(recorder) = self.engine.0.options.recorder.clone().filter(Recorder::has_profile) else {
            return;
        };
        let plugin = self.clone();
        let name = move || plugin.discovered.bytes().iter().for_each(|bytes| recorder.name(bytes));
        // There is no profile if no thread can be started.
        let _ = self.engine.threads().own(name).await;
    }

    /// Returns a text about the end of a guest, with the place in its author's files.
    pub(crate) async fn told(self: &Arc<Self>, end: &End) -> String {
        end.told(&self.frames(end).await)
    }

    async fn frames(self: &Arc<Self>, end: &End) -> Vec<Frame> {
        if end.stack.is_empty() {
            return Vec::new();
        }
        let (plugin, stack) = (self.clone(), end.stack.clone());
        let find = move || plugin.symbols.frames(&stack, || plugin.discovered.bytes());
        self.engine.threads().own(find).await.unwrap_or_default()
    }
}

impl PluginShared {
    /// Returns whether calls find the component loaded, or know why it cannot be.
    pub(crate) fn is_loaded(&self) -> bool {
        self.code.get().is_some()
    }

    /// Returns the component, loaded at its first use.
    pub(crate) fn linked(&self) -> Result<&LinkedComponent, String> {
        self.code().map(|code| &code.linked)
    }

    fn code(&self) -> Result<&Code, String> {
        if let Some(optimized) = self.optimized.get() {
            return Ok(optimized);
        }
        // An engine that does not start now may start for the next call.
        self.engine.wasmtime().map_err(|error| unloadable(&error))?;
        let load = || self.load().map_err(|error| unloadable(&error));
        self.code.get_or_init(load).as_ref().map_err(String::clone)
    }

    fn cached_component(&self, engine: &wasmtime::Engine) -> Option<(Component, Tier)> {
        let code = self.engine.cache()?.lookup(&self.discovered.key)?.code;
        Some((self.engine.load(engine, &code)?, code.tier))
    }

    /// Loads the component with all of haft's rights: from the cache or, in its turn, by compilation. The first
    /// call reports a failure.
    pub(crate) async fn load_code(plugin: &Arc<Self>) -> Result<(), NoAnswer> {
        let (threads, own) = (plugin.engine.threads(), plugin.clone());
        if plugin.is_loaded() || threads.own(move || own.link_cached()).await? {
            return Ok(());
        }
        let (name, bytes) = (&plugin.name, plugin.discovered.source.size());
        let _compilation = plugin.engine.0.compilations.begin(threads, name, bytes).await;
        // Another call may have compiled it meanwhile.
        let own = plugin.clone();
        threads.own(move || _ = own.code()).await
    }

    fn link_cached(&self) -> bool {
        let cached = self.engine.wasmtime().ok().and_then(|engine| self.cached_component(engine));
        let link = |component, tier| {
            self.discovered.link(&self.engine, &component, tier).map_err(|error| unloadable(&error))
        };
        cached.map(|(component, tier)| self.code.get_or_init(|| link(component, tier))).is_some()
    }

    fn load(&self) -> Result<Code, LoadError> {
        match self.cached_component(self.engine.wasmtime()?) {
            Some((component, tier)) => self.discovered.link(&self.engine, &component, tier),
            None => self.discovered.compile_again(&self.engine, Engine::compile),
        }
    }

    /// Returns whether the code that calls run was compiled quickly.
    fn is_quick(&self) -> bool {
        let first = self.code.get().and_then(|code| code.as_ref().ok());
        first.is_some_and(|code| code.tier == Tier::Quick) && self.optimized.get().is_none()
    }

    /// Begins the `nth` call of this process, counted from 0. Quick code is optimized for later calls if there were
    /// many, or if this call runs for a while. A drop of the returned value ends the wait.
    pub(crate) fn consider_optimizing(plugin: &Arc<Self>, nth: u64) -> Option<DropGuard> {
        if !plugin.is_quick() || plugin.is_optimizing.load(Ordering::Relaxed) {
            return None;
        }
        let threads = plugin.engine.threads();
        if nth >= MANY {
            let own = plugin.clone();
            threads.spawn(async move { Self::optimize(&own).await });
            return None;
        }
        let (weak, over) = (Arc::downgrade(plugin), CancellationToken::new());
        let is_over = over.clone();
        threads.spawn(async move {
            let is_long = is_over.run_until_cancelled(tokio::time::sleep(LONG)).await.is_some();
            if let Some(plugin) = weak.upgrade().filter(|_| is_long) {
                Self::optimize(&plugin).await;
            }
        });
        Some(over.drop_guard())
    }

    /// Compiles the component again, for later calls, once.
    async fn optimize(plugin: &Arc<Self>) {
        if plugin.is_optimizing.swap(true, Ordering::Relaxed) {
            return;
        }
        let (engine, own) = (plugin.engine.clone(), plugin.clone());
        let _turn = engine.0.compilations.begin_optimizing().await;
        match engine.threads().own(move || own.load_optimized()).await {
            Ok(Ok(())) => tracing::debug!(plugin = &*plugin.name, "code optimized"),
            Ok(Err(error)) => tracing::debug!(plugin = &*plugin.name, %error, "code not optimized"),
            Err(error) => tracing::debug!(plugin = &*plugin.name, %error, "code not optimized"),
        }
    }

    fn load_optimized(&self) -> Result<(), LoadError> {
        let code = self.discovered.compile_again(&self.engine, Engine::optimize)?;
        // No other task does this for the plugin.
        let _ = self.optimized.set(code);
        Ok(())
    }
}

fn unloadable(error: &LoadError) -> String {
    format!("cannot be loaded: {error}")
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.0.name)
            .field("digest", &self.digest())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;
    use crate::EngineOptions;

    /// Plugins of one component: the first compiles it, the others read the result.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_component_is_compiled_once() {
        let directory = tempfile::tempdir().unwrap();
        let options =
            EngineOptions { cache: Some(directory.path().join("cache")), ..EngineOptions::default() };
        let engine = Engine::new(&options);
        let mut loading = tokio::task::JoinSet::new();
        // A plugin that has waited for its complete time limit compiles too: on a busy machine the limit may be
        // shorter than a compilation.
        let limits = Limits { time: Duration::from_mins(5), ..Limits::default() };
        for number in 0..6 {
            let engine = engine.clone();
            loading.spawn(async move {
                let source = Source::Embedded(include_bytes!("../../../tests/guests/built/hook.wasm"));
                Plugin::load(&engine, &format!("p{number}"), source, &limits).await.unwrap()
            });
        }
        let plugins = loading.join_all().await;
        assert!(plugins.iter().all(|plugin| plugin.contract() == Contract::Hook));
        assert_eq!(plugins.iter().filter(|plugin| plugin.0.is_loaded()).count(), 1);
    }

    /// Code is never cached under the digest of other bytes: a file may be replaced while its compilation waits.
    #[tokio::test]
    async fn a_component_that_is_replaced_before_its_compilation_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("plugin.wasm");
        let cache = Some(directory.path().join("cache"));
        let engine = Engine::new(&EngineOptions { cache, ..EngineOptions::default() });
        let limits = Limits::default();
        let load = || Plugin::load(&engine, "p", Source::File(file.clone()), &limits);
        let hook = include_bytes!("../../../tests/guests/built/hook.wasm");
        std::fs::write(&file, hook).unwrap();
        let compilations = &engine.0.compilations;
        let others = [
            compilations.begin(engine.threads(), "a", 1).await,
            compilations.begin(engine.threads(), "b", 1).await,
        ];
        let mut waiting = std::pin::pin!(load());
        let is_waiting = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
        assert!(is_waiting, "two others are compiled");
        std::fs::write(&file, include_bytes!("../../../plugins/built/hello.wasm")).unwrap();
        drop(others);
        assert_eq!(waiting.await.unwrap().contract(), Contract::Plugin);
        std::fs::write(&file, hook).unwrap();
        assert_eq!(load().await.unwrap().contract(), Contract::Hook);
    }

    /// A06: calls use the optimized code once it exists, and it is compiled once.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn calls_have_the_optimized_code() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Some(directory.path().join("cache"));
        let engine = Engine::new(&EngineOptions { cache, tiered: true, ..EngineOptions::default() });
        let source = Source::Embedded(include_bytes!("../../../tests/guests/built/hook.wasm"));
        let plugin = Plugin::load(&engine, "p", source, &Limits::default()).await.unwrap();
        let shared = &plugin.0;
        assert!(shared.is_quick() && shared.optimized.get().is_none());
        assert!(PluginShared::consider_optimizing(shared, MANY - 1).is_some(), "a long call would be enough");
        assert!(!shared.is_optimizing.load(Ordering::Relaxed), "this one was short");
        PluginShared::optimize(shared).await;
        let optimized = shared.optimized.get().expect("optimized code");
        assert!(std::ptr::eq(shared.code().unwrap(), optimized) && optimized.tier == Tier::Optimized);
        assert!(!shared.is_quick());
        assert!(PluginShared::consider_optimizing(shared, MANY - 1).is_none());
    }
}
