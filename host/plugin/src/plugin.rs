//! A plugin: a component whose tools are known. Its code is loaded, or compiled, at the first call.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;
use wasmtime::component::Component;

use super::contract::Contract;
use super::contract::dispatch::LinkedComponent;
use super::engine::Engine;
use super::failure::LoadError;
use super::instance::Instance;
use crate::component::adapt;
use crate::component::discover::{self, Identity};
use crate::component::listing::{Listing, Uncallable};
use crate::component::offered;
use crate::component::record;
use crate::component::source::{Digest, Source};
use crate::debug::symbols::Symbols;
use crate::instance::allocator;
use crate::instance::reuse::Reuse;
use crate::instance::state::Belongings;
use crate::instance::warm_pool::WarmPool;
use crate::storage::Storage;
use crate::threads::NoAnswer;
use crate::threads::shares::Tenant;
use crate::wasi::config::Config;
use crate::wasi::http::{Injection, Injections, Responder};
use haft_core::call::{Offers, ToolDef};
use haft_core::limit::Limits;
use haft_core::manifest;

/// A component whose tools are known. Clones share everything.
#[derive(Clone)]
pub struct Plugin(pub(super) Arc<PluginShared>);

/// What the clones of a [`Plugin`] share.
pub(super) struct PluginShared {
    pub(super) name: Arc<str>,
    /// Identifies the plugin where plugins share permits.
    pub(super) number: u64,
    pub(super) engine: Engine,
    pub(super) discovered: Discovered,
    pub(super) linked: OnceLock<Result<LinkedComponent, String>>,
    /// The component for prewarmed instances, where these use another memory strategy.
    pub(super) prewarm_component: OnceLock<Option<LinkedComponent>>,
    pub(super) belongings: Belongings,
    pub(super) symbols: Symbols,
    /// Where instances serve several calls.
    pub(super) reuse: Option<Arc<Reuse>>,
    pub(super) warm_pool: WarmPool,
    pub(super) calls: AtomicU64,
    pub(super) is_prewarming: AtomicBool,
    /// Whether a task that drops expired instances is running.
    pub(super) is_expiring: AtomicBool,
    /// Used instances that wait for a thread to drop them.
    pub(super) discarded: Mutex<Vec<Instance>>,
    pub(super) is_discarding: AtomicBool,
}

/// What has been found out about a component.
#[derive(Clone)]
pub(super) struct Discovered {
    source: Source,
    digest: Digest,
    /// The key of its record in the cache.
    key: Digest,
    listing: Listing,
}

impl Plugin {
    /// Finds out the tools of a component: from what came along with it, from the cache, or by compiling it and asking an instance without rights.
    ///
    /// # Errors
    /// The component cannot be read, is not the pinned one, fits no contract, or lists tools that cannot be used.
    pub async fn load(
        engine: &Engine,
        name: &str,
        source: Source,
        limits: &Limits,
    ) -> Result<Self, LoadError> {
        let identity = discover::identify(engine, &source)?;
        if let Some(listing) = discover::known(engine, &source, &identity) {
            return Ok(Self::new(engine, name, Discovered::new(source, identity, listing), OnceLock::new()));
        }
        let (listing, linked) =
            discover::compile_and_list(engine, name, (&source, &identity), limits).await?;
        let discovered = Discovered::new(source, identity, listing);
        let linked = linked.map_or_else(OnceLock::new, |linked| OnceLock::from(Ok(linked)));
        Ok(Self::new(engine, name, discovered, linked))
    }

    /// The plugin of a component whose tools came along with it or that the cache knows; `None` for any other.
    ///
    /// # Errors
    /// The component cannot be read, or is not the pinned one.
    pub fn from_cache(engine: &Engine, name: &str, source: Source) -> Result<Option<Self>, LoadError> {
        let identity = discover::identify(engine, &source)?;
        let listing = discover::known(engine, &source, &identity);
        Ok(listing.map(|listing| {
            Self::new(engine, name, Discovered::new(source, identity, listing), OnceLock::new())
        }))
    }

    /// What can be called ([`Plugin::definitions`]) of the component with this SHA-256, in hexadecimal, as the cache has it;
    /// its file need not exist any more.
    pub fn remembered(engine: &Engine, digest: &str, name: &str) -> Option<Vec<ToolDef>> {
        Some(engine.cache()?.lookup(&Digest::from_hex(digest))?.listing.definitions(name))
    }

    fn new(
        engine: &Engine,
        name: &str,
        discovered: Discovered,
        linked: OnceLock<Result<LinkedComponent, String>>,
    ) -> Self {
        let (engine, name) = (engine.clone(), Arc::from(name));
        let (warm_pool, calls) = (WarmPool::new(engine.ahead()), AtomicU64::new(0));
        let classes = discovered.listing.classes.as_slice().into();
        let belongings = Belongings { classes, ..Belongings::default() };
        let (prewarm_component, reuse) = (OnceLock::new(), None);
        let (is_prewarming, is_expiring, is_discarding) = <(AtomicBool, AtomicBool, AtomicBool)>::default();
        Self(Arc::new(PluginShared {
            name,
            number: Tenant::plugin(),
            engine,
            discovered,
            linked,
            prewarm_component,
            belongings,
            symbols: Symbols::default(),
            reuse,
            warm_pool,
            calls,
            is_prewarming,
            is_expiring,
            discarded: Mutex::default(),
            is_discarding,
        }))
    }

    /// The same plugin, with headers that haft adds to its requests and the plugin never sees.
    /// They grant nothing: a host must be granted as well.
    #[must_use]
    pub fn with_injections(self, injections: impl IntoIterator<Item = Injection>) -> Self {
        let injections = Injections::from_iter(injections);
        // Most plugins have none: nothing of theirs is made twice.
        if injections.is_empty() && self.0.belongings.outbound.injections.is_empty() {
            return self;
        }
        self.with_change(|inner| inner.belongings.outbound.injections = injections)
    }

    /// The same plugin, whose requests `responder` answers: none leaves this machine.
    #[must_use]
    pub fn with_responder(self, responder: Arc<dyn Responder>) -> Self {
        self.with_change(|inner| inner.belongings.outbound.responder = Some(responder))
    }

    /// The same plugin, which keeps things there as far as the grant of a call says so.
    #[must_use]
    pub fn with_storage(self, storage: Storage) -> Self {
        self.with_change(|inner| inner.belongings.storage = Some(storage))
    }

    /// The same plugin with a configuration.
    #[must_use]
    pub fn with_config(self, config: Config) -> Self {
        self.with_change(|inner| inner.belongings.config = Some(config))
    }

    /// The same plugin, whose instances serve several calls.
    #[must_use]
    pub fn with_reuse(self, reuse: manifest::Reuse) -> Self {
        self.with_change(|inner| inner.reuse = Some(Arc::new(Reuse::new(reuse))))
    }

    /// The same plugin with a change, and with no instance yet.
    fn with_change(self, change: impl FnOnce(&mut PluginShared)) -> Self {
        let own = &*self.0;
        let same = Self::new(&own.engine, &own.name, own.discovered.clone(), own.linked.clone());
        let Some(mut inner) = Arc::into_inner(same.0) else { return self };
        inner.belongings = own.belongings.clone();
        inner.reuse = own.reuse.as_ref().map(|reuse| Arc::new(Reuse::new(reuse.settings())));
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// The tools it lists, by the names it gives them.
    pub fn tools(&self) -> &[ToolDef] {
        &self.0.discovered.listing.tools
    }

    /// What it offers beside them, by the names and paths that it gives them.
    pub fn offers(&self) -> &Offers {
        &self.0.discovered.listing.offers
    }

    /// The names that it has itself for all that can be called of it.
    pub fn own_names(&self) -> Vec<String> {
        let offers = offered::own_names(self.offers());
        self.tools().iter().map(|tool| tool.name.clone()).chain(offers).collect()
    }

    /// All that can be called of the plugin, as what is agreed to has it: its tools, its prompts and its resources, where
    /// a program calls it `name`.
    pub fn definitions(&self, name: &str) -> Vec<ToolDef> {
        self.0.discovered.listing.definitions(name)
    }

    /// The exported functions that cannot be tools, with the reasons.
    pub fn uncallable(&self) -> &[Uncallable] {
        &self.0.discovered.listing.uncallable
    }

    /// The JSON Schema of the configuration that it reads, where the component brings one.
    pub fn config_schema(&self) -> Option<&Value> {
        self.0.discovered.listing.config.as_ref()
    }

    /// What it lists, as text for [`Source::Packed`]: the same component gives the same bytes.
    ///
    /// # Errors
    /// The text cannot be written, which does not happen to what was read from text.
    pub fn record(&self) -> serde_json::Result<String> {
        record::write(&self.0.discovered.digest, &self.0.discovered.listing)
    }

    /// The contract of the component.
    pub fn contract(&self) -> Contract {
        self.0.discovered.listing.contract
    }

    /// SHA-256 of the component, in hexadecimal.
    pub fn digest(&self) -> &str {
        self.0.discovered.digest.as_str()
    }
}

impl Discovered {
    fn new(source: Source, identity: Identity, listing: Listing) -> Self {
        let Identity { digest, key, .. } = identity;
        Self { source, digest, key, listing }
    }

    /// The component's bytes, where they are still those that were compiled.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        let bytes = self.source.read().ok()?;
        let bytes = (Digest::compute(&bytes) == self.digest).then_some(bytes)?;
        adapt::component(&bytes).ok().map(Cow::into_owned)
    }
}

impl PluginShared {
    /// The component, loaded at its first use.
    pub(super) fn linked(&self) -> Result<&LinkedComponent, String> {
        // An engine that does not start now may start for the next call.
        self.engine.wasmtime().map_err(|error| unloadable(&error))?;
        let load = || self.load().map_err(|error| unloadable(&error));
        self.linked.get_or_init(load).as_ref().map_err(String::clone)
    }

    /// The component for prewarmed instances; `None` where it is the one for calls.
    pub(super) fn prewarm_component(&self) -> Option<&LinkedComponent> {
        let load = || {
            let is_large = self.linked().is_ok_and(|linked| allocator::is_large(linked.component()));
            let component =
                is_large.then(|| self.cached_component(self.engine.prewarm_engine()?)).flatten()?;
            let linked = self.link(&component);
            linked.inspect_err(|error| tracing::debug!(%error, "component not linked a second time")).ok()
        };
        self.prewarm_component.get_or_init(load).as_ref()
    }

    /// The component, if its code is in the cache.
    fn cached_component(&self, engine: &wasmtime::Engine) -> Option<Component> {
        let cache = self.engine.cache()?;
        cache.load(engine, &cache.lookup(&self.discovered.key)?.code)
    }

    /// Loads the component with all of haft's rights: from the cache or, when it is its turn, by compiling it. What goes
    /// wrong is told by the first call.
    pub(super) async fn load_code(plugin: &Arc<Self>) -> Result<(), NoAnswer> {
        let (threads, own) = (plugin.engine.threads(), plugin.clone());
        if plugin.linked.get().is_some() || threads.own(move || own.link_cached()).await? {
            return Ok(());
        }
        let (name, bytes) = (&plugin.name, plugin.discovered.source.size());
        let _compilation = plugin.engine.compilations().begin(threads, name, bytes).await;
        // Another call may have had it compiled meanwhile.
        let own = plugin.clone();
        threads.own(move || _ = own.linked()).await
    }

    /// Loads the component if its code is in the cache; whether it is.
    fn link_cached(&self) -> bool {
        let cached = self.engine.wasmtime().ok().and_then(|engine| self.cached_component(engine));
        let link = |component| self.link(&component).map_err(|error| unloadable(&error));
        cached.map(|component| self.linked.get_or_init(|| link(component))).is_some()
    }

    fn load(&self) -> Result<LinkedComponent, LoadError> {
        let (engine, Discovered { source, digest, key, listing }) = (&self.engine, &self.discovered);
        let component = match self.cached_component(engine.wasmtime()?) {
            Some(component) => component,
            None => discover::recompile(engine, source, (digest, key), listing)?,
        };
        self.link(&component)
    }

    fn link(&self, component: &Component) -> Result<LinkedComponent, LoadError> {
        Ok(LinkedComponent::new(&self.engine, component)?.listed_as(&self.discovered.listing))
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
    use super::*;
    use crate::EngineOptions;

    /// Plugins of one component: the first compiles it, the others read what it found out.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_component_is_compiled_once() {
        let directory = tempfile::tempdir().unwrap();
        let options =
            EngineOptions { cache: Some(directory.path().join("cache")), ..EngineOptions::default() };
        let engine = Engine::new(&options);
        let mut loading = tokio::task::JoinSet::new();
        for number in 0..6 {
            let engine = engine.clone();
            loading.spawn(async move {
                let source = Source::Embedded(include_bytes!("../../../tests/guests/built/hook.wasm"));
                Plugin::load(&engine, &format!("p{number}"), source, &Limits::default()).await.unwrap()
            });
        }
        let plugins = loading.join_all().await;
        assert!(plugins.iter().all(|plugin| plugin.contract() == Contract::Hook));
        assert_eq!(plugins.iter().filter(|plugin| plugin.0.linked.get().is_some()).count(), 1);
    }

    /// What most plugins are is not made a second time.
    #[test]
    fn no_injection_is_no_change() {
        let engine = Engine::new(&EngineOptions::default());
        let listing = Listing::new(Contract::Plugin);
        let digest = Digest::compute(b"");
        let discovered = Discovered { source: Source::Embedded(b""), key: digest.clone(), digest, listing };
        let plugin = Plugin::new(&engine, "p", discovered, OnceLock::new());
        assert!(Arc::ptr_eq(&plugin.0, &plugin.clone().with_injections([]).0));
    }
}
