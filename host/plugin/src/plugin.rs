//! A plugin: a component whose tools are known. `code` loads or compiles its code at the first call.

mod code;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use self::code::Code;
use super::contract::Contract;
use super::engine::Engine;
use super::failure::LoadError;
use crate::component::adapt;
use crate::component::discover::{self, Identity};
use crate::component::listing::{Listing, Uncallable};
use crate::component::offered;
use crate::component::source::{Digest, Source};
use crate::debug::symbols::Symbols;
use crate::instance::idle::{self, IdleInstances};
use crate::instance::reuse::Reuse;
use crate::options::{Belongings, PluginOptions};
use crate::threads::shares::Tenant;
use haft_core::call::{Offers, ToolDef};
use haft_core::limit::Limits;

/// A component whose tools are known. Clones share all state.
#[derive(Clone)]
pub struct Plugin(pub(super) Arc<PluginShared>);

/// The state that the clones of a [`Plugin`] share.
pub(super) struct PluginShared {
    pub(super) name: Arc<str>,
    /// Identifies the plugin where plugins share permits.
    pub(super) number: u64,
    pub(super) engine: Engine,
    pub(super) discovered: Arc<Discovered>,
    code: OnceLock<Result<Code, String>>,
    /// The optimized code, if the first code was compiled quickly.
    optimized: OnceLock<Code>,
    /// Whether the optimized code is being compiled.
    is_optimizing: AtomicBool,
    pub(super) belongings: Belongings,
    pub(super) symbols: Symbols,
    /// The reuse of instances, if enabled.
    pub(super) reuse: Option<Reuse>,
    pub(super) idle: Arc<IdleInstances>,
    pub(super) calls: AtomicU64,
    pub(super) is_prewarming: AtomicBool,
}

/// The result of discovering a component.
pub(super) struct Discovered {
    source: Source,
    pub(super) digest: Digest,
    /// The key of the component's record in the cache.
    key: Digest,
    pub(super) listing: Listing,
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
        let identity = discover::identify(engine, &source)?;
        if let Some(listing) = discover::known(engine, &source, &identity) {
            return Ok(Self::found(engine, name, Discovered::new(source, identity, listing), None));
        }
        let (listing, linked) =
            discover::compile_and_list(engine, name, (&source, &identity), limits).await?;
        let discovered = Discovered::new(source, identity, listing);
        Ok(Self::found(engine, name, discovered, linked.map(|(linked, tier)| Code::new(linked, tier))))
    }

    /// Returns the plugin of a component whose tools are recorded or in the cache; `None` for any other component.
    ///
    /// # Errors
    /// The component cannot be read, or differs from the pinned one.
    pub fn from_cache(engine: &Engine, name: &str, source: Source) -> Result<Option<Self>, LoadError> {
        let identity = discover::identify(engine, &source)?;
        let listing = discover::known(engine, &source, &identity);
        let found = |listing| Self::found(engine, name, Discovered::new(source, identity, listing), None);
        Ok(listing.map(found))
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

impl Discovered {
    fn new(source: Source, identity: Identity, listing: Listing) -> Self {
        let Identity { digest, key, .. } = identity;
        Self { source, digest, key, listing }
    }

    /// Returns the component's bytes, if they are unchanged since the compilation.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        let bytes = self.source.read().ok()?;
        let bytes = (Digest::compute(&bytes) == self.digest).then_some(bytes)?;
        adapt::component(&bytes).ok().map(Cow::into_owned)
    }
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
    use std::time::Duration;

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
}
