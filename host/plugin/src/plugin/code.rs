//! The code of a plugin: loaded or compiled at the first call, and compiled again with optimizations if a quickly
//! compiled plugin is called often or for long.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};
use wasmtime::component::Component;

use super::{Discovered, PluginShared};
use crate::component::compile::Tier;
use crate::component::discover;
use crate::contract::linked::LinkedComponent;
use crate::failure::LoadError;
use crate::threads::NoAnswer;

/// Number of calls in one process after which quick code is optimized: fewer calls take less time than the compilation.
const MANY: u64 = 32;

/// Duration of a call from which optimized code pays off for the next one.
const LONG: Duration = Duration::from_secs(1);

/// The code of a plugin, linked.
#[derive(Clone)]
pub(super) struct Code {
    linked: LinkedComponent,
    tier: Tier,
}

impl Code {
    pub(super) fn new(linked: LinkedComponent, tier: Tier) -> Self {
        Self { linked, tier }
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

    /// Returns the component, if the cache has its code.
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
        let _compilation = plugin.engine.compilations().begin(threads, name, bytes).await;
        // Another call may have compiled it meanwhile.
        let own = plugin.clone();
        threads.own(move || _ = own.code()).await
    }

    /// Loads the component if the cache has its code. Returns whether it was loaded.
    fn link_cached(&self) -> bool {
        let cached = self.engine.wasmtime().ok().and_then(|engine| self.cached_component(engine));
        let link = |component, tier| self.code_of(&component, tier).map_err(|error| unloadable(&error));
        cached.map(|(component, tier)| self.code.get_or_init(|| link(component, tier))).is_some()
    }

    fn load(&self) -> Result<Code, LoadError> {
        let (engine, Discovered { source, digest, key, listing }) = (&self.engine, &*self.discovered);
        let (component, tier) = match self.cached_component(engine.wasmtime()?) {
            Some(cached) => cached,
            None => discover::recompile(engine, source, (digest, key), listing)?,
        };
        self.code_of(&component, tier)
    }

    fn code_of(&self, component: &Component, tier: Tier) -> Result<Code, LoadError> {
        Ok(Code::new(self.link(component)?, tier))
    }

    fn link(&self, component: &Component) -> Result<LinkedComponent, LoadError> {
        LinkedComponent::new(&self.engine, component, Some(&self.discovered.listing))
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
        let _turn = engine.compilations().begin_optimizing().await;
        match engine.threads().own(move || own.load_optimized()).await {
            Ok(Ok(())) => tracing::debug!(plugin = &*plugin.name, "code optimized"),
            Ok(Err(error)) => tracing::debug!(plugin = &*plugin.name, %error, "code not optimized"),
            Err(error) => tracing::debug!(plugin = &*plugin.name, %error, "code not optimized"),
        }
    }

    fn load_optimized(&self) -> Result<(), LoadError> {
        let Discovered { source, digest, key, listing } = &*self.discovered;
        let component = discover::optimize(&self.engine, source, (digest, key), listing)?;
        let code = self.code_of(&component, Tier::Optimized)?;
        // No other task does this for the plugin.
        let _ = self.optimized.set(code);
        Ok(())
    }
}

fn unloadable(error: &LoadError) -> String {
    format!("cannot be loaded: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::source::Source;
    use crate::{Engine, EngineOptions, Plugin};
    use haft_core::limit::Limits;

    /// A06: calls use the optimized code once it exists, and it is compiled once.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn calls_have_the_optimized_code() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Some(directory.path().join("cache"));
        let engine = Engine::new(&EngineOptions { cache, tiered: true, ..EngineOptions::default() });
        let source = Source::Embedded(include_bytes!("../../../../tests/guests/built/hook.wasm"));
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
