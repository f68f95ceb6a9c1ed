//! A plugin: a component that has been looked at. Lists its tools without any of its code; loads
//! that at its first use, and makes no call itself.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

use wasmtime::component::Component;

use super::contract::Contract;
use super::contract::dispatch::Linked;
use super::engine::Engine;
use super::failure::LoadError;
use super::instance::Instance;
use crate::component::discover;
use crate::component::listing::{Listing, Uncallable};
use crate::component::source::{Digest, Source};
use crate::instance::allocator;
use crate::instance::reuse::Reuse;
use crate::instance::warm_pool::WarmPool;
use crate::threads::shares::Tenant;
use crate::wasi::http::{Injection, Injections};
use haft_core::call::ToolDef;
use haft_core::limit::Limits;
use haft_core::manifest;

/// A component that has been looked at. Clones share everything.
#[derive(Clone)]
pub struct Plugin(pub(super) Arc<Inner>);

/// What the clones of a [`Plugin`] share.
pub(super) struct Inner {
    pub(super) name: Arc<str>,
    /// Tells it from others where plugins share something.
    pub(super) number: u64,
    pub(super) engine: Engine,
    pub(super) met: Discovered,
    pub(super) linked: OnceLock<Result<Linked, String>>,
    /// The same for instances made ahead, where they have a memory of another kind.
    pub(super) ready: OnceLock<Option<Linked>>,
    pub(super) injections: Injections,
    /// Where instances serve several calls.
    pub(super) reuse: Option<Arc<Reuse>>,
    pub(super) stock: WarmPool,
    pub(super) calls: AtomicU64,
    pub(super) restocking: AtomicBool,
    /// Whether somebody sees to it that no instance waits for ever.
    pub(super) expiring: AtomicBool,
    /// Used instances that somebody clears away.
    pub(super) left: Mutex<Vec<Instance>>,
    pub(super) clearing: AtomicBool,
}

/// What has been found out about a component.
#[derive(Clone)]
pub(super) struct Discovered {
    source: Source,
    digest: Digest,
    /// What it is remembered by.
    record: Digest,
    listing: Listing,
}

impl Plugin {
    /// Looks at a component. One that has been seen before is neither compiled nor run for it.
    pub async fn load(
        engine: &Engine,
        name: &str,
        source: Source,
        limits: &Limits,
    ) -> Result<Self, LoadError> {
        let digest = engine.digest(&source).map_err(|error| discover::unreadable(&source, error))?;
        if !source.admits(&digest) {
            return Err(LoadError::Pinned);
        }
        let words = source.words();
        let record = digest.with(words.as_deref());
        if let Some(known) = engine.cache().and_then(|cache| cache.known(&record)) {
            let met = Discovered { source, digest, record, listing: known.listing };
            return Ok(Self::new(engine, name, met, OnceLock::new()));
        }
        let (listing, linked) = discover::meet(engine, name, (&source, words), &record, limits).await?;
        let met = Discovered { source, digest, record, listing };
        Ok(Self::new(engine, name, met, OnceLock::from(Ok(linked))))
    }

    /// The same of a component that has been seen before; nothing where it has not.
    pub fn known(engine: &Engine, name: &str, source: Source) -> Result<Option<Self>, LoadError> {
        let digest = engine.digest(&source).map_err(|error| discover::unreadable(&source, error))?;
        if !source.admits(&digest) {
            return Err(LoadError::Pinned);
        }
        let record = digest.with(source.words().as_deref());
        let known = engine.cache().and_then(|cache| cache.known(&record));
        Ok(known.map(|known| {
            let met = Discovered { source, digest, record, listing: known.listing };
            Self::new(engine, name, met, OnceLock::new())
        }))
    }

    /// The tools of the component with this SHA-256, in hexadecimal, as they were listed when it was seen
    /// last; its file need not be there any more.
    pub fn remembered(engine: &Engine, digest: &str) -> Option<Vec<ToolDef>> {
        Some(engine.cache()?.known(&Digest::written(digest))?.listing.tools)
    }

    fn new(engine: &Engine, name: &str, met: Discovered, linked: OnceLock<Result<Linked, String>>) -> Self {
        let (engine, name) = (engine.clone(), Arc::from(name));
        let (stock, calls) = (WarmPool::new(engine.ahead()), AtomicU64::new(0));
        let (injections, ready, reuse) = (Injections::default(), OnceLock::new(), None);
        let (restocking, expiring, clearing) = <(AtomicBool, AtomicBool, AtomicBool)>::default();
        Self(Arc::new(Inner {
            name,
            number: Tenant::plugin(),
            engine,
            met,
            linked,
            ready,
            injections,
            reuse,
            stock,
            calls,
            restocking,
            expiring,
            left: Mutex::default(),
            clearing,
        }))
    }

    /// The same plugin, with headers that haft adds to its requests and the plugin never sees.
    /// They grant nothing: a host must be granted as well.
    #[must_use]
    pub fn with_injections(self, injections: impl IntoIterator<Item = Injection>) -> Self {
        self.changed(|inner| inner.injections = injections.into_iter().collect())
    }

    /// The same plugin, whose instances serve several calls.
    #[must_use]
    pub fn with_reuse(self, reuse: manifest::Reuse) -> Self {
        self.changed(|inner| inner.reuse = Some(Arc::new(Reuse::new(reuse))))
    }

    /// The same plugin with a change, and with no instance yet.
    fn changed(self, change: impl FnOnce(&mut Inner)) -> Self {
        let own = &*self.0;
        let same = Self::new(&own.engine, &own.name, own.met.clone(), own.linked.clone());
        let Some(mut inner) = Arc::into_inner(same.0) else { return self };
        inner.injections = own.injections.clone();
        inner.reuse = own.reuse.as_ref().map(|reuse| Arc::new(Reuse::new(reuse.settings())));
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// The tools it lists, by the names it gives them.
    pub fn tools(&self) -> &[ToolDef] {
        &self.0.met.listing.tools
    }

    /// What it exports and cannot be called, with the reasons.
    pub fn uncallable(&self) -> &[Uncallable] {
        &self.0.met.listing.uncallable
    }

    /// The contract it keeps.
    pub fn contract(&self) -> Contract {
        self.0.met.listing.contract
    }

    /// SHA-256 of the component, in hexadecimal.
    pub fn digest(&self) -> &str {
        self.0.met.digest.as_str()
    }
}

impl Inner {
    /// The component, loaded at its first use.
    pub(super) fn linked(&self) -> Result<&Linked, String> {
        let load = || self.load().map_err(|error| format!("cannot be loaded: {error}"));
        self.linked.get_or_init(load).as_ref().map_err(String::clone)
    }

    /// The component for instances made ahead, where it is not the same; `None` where it is.
    pub(super) fn ready(&self) -> Option<&Linked> {
        let load = || {
            let is_large = self.linked().is_ok_and(|linked| allocator::is_large(linked.component()));
            let component = is_large.then(|| self.kept(self.engine.ready()?)).flatten()?;
            let linked = Linked::new(&self.engine, &component);
            linked.inspect_err(|error| tracing::debug!(%error, "component not linked a second time")).ok()
        };
        self.ready.get_or_init(load).as_ref()
    }

    /// The component, if its code is in the cache.
    fn kept(&self, engine: &wasmtime::Engine) -> Option<Component> {
        let cache = self.engine.cache()?;
        cache.load(engine, &cache.known(&self.met.record)?.code)
    }

    fn load(&self) -> Result<Linked, LoadError> {
        let (engine, Discovered { source, digest, record, listing }) = (&self.engine, &self.met);
        let component = match self.kept(engine.wasmtime()) {
            Some(component) => component,
            None => discover::recompile(engine, source, (digest, record), listing)?,
        };
        Linked::new(engine, &component)
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
