//! Getting to know a component: compiling it and asking it for its tools. The guest that is asked has
//! no rights at all; what is found out about it is written down on threads that no guest runs on.

use std::sync::Arc;

use wasmtime::component::Component;

use super::cache::Code;
use super::contract::Linked;
use super::engine::Engine;
use super::failure::{End, LoadError};
use super::http::Injections;
use super::instance::Instance;
use super::listing::Listing;
use super::source::{Digest, Source};
use super::state::Run;
use super::threads::Lost;
use super::wall;
use crate::grant::Grant;
use crate::limit::Limits;

/// Compiles a component seen for the first time and asks it for its tools, granting nothing.
pub(super) async fn meet(
    engine: &Engine,
    name: &str,
    source: &Source,
    digest: &Digest,
    limits: &Limits,
) -> Result<(Listing, Linked), LoadError> {
    let lost = |lost: Lost| LoadError::Internal(lost.to_string());
    let (own, own_source) = (engine.clone(), source.clone());
    let compiled = engine.threads().own(move || compile(&own, &own_source)).await;
    let (linked, code) = compiled.map_err(lost)??;
    let (own, own_linked, own_name, own_limits) = (engine.clone(), linked.clone(), Arc::from(name), *limits);
    let listed = engine.threads().run(wall::nowhere(), move |handle, sender| {
        let listed = handle.block_on(list(&own, &own_linked, own_name, &own_limits));
        // Whoever has the answer and lets go of the plugin has nothing of it mapped any more.
        drop((own, own_linked));
        // Nobody waiting any more is no reason to fail.
        let _ = sender.send(listed);
    });
    let listing = listed.await.map_err(lost)??;
    if let Some(code) = code {
        let (own, own_digest, own_listing) = (engine.clone(), digest.clone(), listing.clone());
        let learn = move || own.cache().map(|cache| cache.learn(&own_digest, code, &own_listing));
        engine.threads().own(learn).await.map_err(lost)?;
    }
    Ok((listing, linked))
}

fn compile(engine: &Engine, source: &Source) -> Result<(Linked, Option<Code>), LoadError> {
    let bytes = source.read().map_err(|error| unreadable(source, error))?;
    let (component, code) = engine.compile(&bytes)?;
    Ok((Linked::new(engine, &component)?, code))
}

async fn list(
    engine: &Engine,
    linked: &Linked,
    name: Arc<str>,
    limits: &Limits,
) -> Result<Listing, LoadError> {
    let _ticking = engine.clock().run();
    let (grant, run) = (Arc::new(Grant::none()), Run::idle(&name, limits));
    let call = (run, Some(wall::nowhere()));
    let instance = Instance::make(engine, linked, grant, Injections::default(), limits, call)
        .await
        .map_err(not_listed)?;
    super::listing::check(linked.contract(), instance.list().await.outcome.map_err(not_listed)??)
}

/// Compiles a component again whose compiled code was lost, unless it has become another one.
pub(super) fn recompile(
    engine: &Engine,
    source: &Source,
    digest: &Digest,
    listing: &Listing,
) -> Result<Component, LoadError> {
    let bytes = source.read().map_err(|error| unreadable(source, error))?;
    if Digest::of(&bytes) != *digest {
        return Err(LoadError::Changed);
    }
    let (component, code) = engine.compile(&bytes)?;
    if let (Some(cache), Some(code)) = (engine.cache(), code) {
        cache.learn(digest, code, listing);
    }
    Ok(component)
}

pub(super) fn unreadable(source: &Source, error: std::io::Error) -> LoadError {
    let path = match source {
        Source::Embedded(_) => "built in".to_owned(),
        Source::File(path) => path.display().to_string(),
    };
    LoadError::Read { path, error }
}

fn not_listed(end: End) -> LoadError {
    LoadError::Listing(end.line)
}
