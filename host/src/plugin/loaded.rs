//! A plugin: a component that has been looked at. Lists its tools without any of its code; loads
//! that at its first use, and makes no call itself.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use super::contract::{Contract, Linked};
use super::engine::Engine;
use super::failure::LoadError;
use super::http::{Injection, Injections};
use super::listing::{Listing, Uncallable};
use super::meet;
use super::source::{Digest, Source};
use super::stock::Stock;
use crate::call::ToolDef;
use crate::limit::Limits;

/// A component that has been looked at. Clones share everything.
#[derive(Clone)]
pub struct Plugin(pub(super) Arc<Inner>);

/// What the clones of a [`Plugin`] share.
pub(super) struct Inner {
    pub(super) name: Arc<str>,
    pub(super) engine: Engine,
    pub(super) source: Source,
    pub(super) digest: Digest,
    pub(super) listing: Listing,
    pub(super) linked: OnceLock<Result<Linked, String>>,
    pub(super) injections: Injections,
    pub(super) stock: Stock,
    pub(super) calls: AtomicU64,
    pub(super) restocking: AtomicBool,
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
        if let Some(known) = Self::of_cache(engine, name, &source, &digest) {
            return Ok(known);
        }
        let (listing, linked) = meet::meet(engine, name, &source, &digest, limits).await?;
        Ok(Self::new(engine, name, source, digest, listing, OnceLock::from(Ok(linked))))
    }

    /// The same of a component that has been seen before; nothing where it has not.
    pub fn known(engine: &Engine, name: &str, source: &Source) -> Result<Option<Self>, LoadError> {
        let digest = engine.digest(source).map_err(|error| meet::unreadable(source, error))?;
        Ok(Self::of_cache(engine, name, source, &digest))
    }

    fn of_cache(engine: &Engine, name: &str, source: &Source, digest: &Digest) -> Option<Self> {
        let known = engine.cache()?.known(digest)?;
        Some(Self::new(engine, name, source.clone(), digest.clone(), known.listing, OnceLock::new()))
    }

    fn new(
        engine: &Engine,
        name: &str,
        source: Source,
        digest: Digest,
        listing: Listing,
        linked: OnceLock<Result<Linked, String>>,
    ) -> Self {
        let (engine, name) = (engine.clone(), Arc::from(name));
        let (stock, calls) = (Stock::new(engine.ahead()), AtomicU64::new(0));
        let (injections, restocking) = (Injections::default(), AtomicBool::new(false));
        Self(Arc::new(Inner {
            name,
            engine,
            source,
            digest,
            listing,
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
        let (listing, linked) = (own.listing.clone(), own.linked.clone());
        let same = Self::new(&own.engine, &own.name, source, digest, listing, linked);
        let Some(inner) = Arc::into_inner(same.0) else { return self };
        Self(Arc::new(Inner { injections: injections.into_iter().collect(), ..inner }))
    }

    /// The tools it lists, by the names it gives them.
    pub fn tools(&self) -> &[ToolDef] {
        &self.0.listing.tools
    }

    /// What it exports and cannot be called, with the reasons.
    pub fn uncallable(&self) -> &[Uncallable] {
        &self.0.listing.uncallable
    }

    /// The contract it keeps.
    pub fn contract(&self) -> Contract {
        self.0.listing.contract
    }

    /// SHA-256 of the component, in hexadecimal.
    pub fn digest(&self) -> &str {
        self.0.digest.as_str()
    }
}

impl Inner {
    /// The component, loaded at its first use.
    pub(super) fn linked(&self) -> Result<&Linked, String> {
        let load = || self.load().map_err(|error| format!("cannot be loaded: {error}"));
        self.linked.get_or_init(load).as_ref().map_err(String::clone)
    }

    fn load(&self) -> Result<Linked, LoadError> {
        let known = self.engine.cache().and_then(|cache| Some((cache, cache.known(&self.digest)?)));
        let kept = known.and_then(|(cache, known)| cache.load(self.engine.wasmtime(), &known.code));
        let component = match kept {
            Some(component) => component,
            None => meet::recompile(&self.engine, &self.source, &self.digest, &self.listing)?,
        };
        Linked::new(&self.engine, &component)
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
