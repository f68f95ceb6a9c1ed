//! Discovers the tools of a component: from the record of its build, from the cache, or by compiling it and listing
//! its tools in an instance without any rights. Threads that run no guest write the result to the cache.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use wasmtime::component::Component;

use crate::call::Call;
use crate::component::cache::CompiledCode;
use crate::component::compile::Tier;
use crate::component::listing::{self, LISTING, Listed, Listing};
use crate::component::source::{Digest, Source};
use crate::component::{adapt, offered, sections};
use crate::contract::act::metadata::DeclaredClass;
use crate::contract::linked::LinkedComponent;
use crate::engine::{CompileResult, Engine};
use crate::failure::{End, LoadError};
use crate::instance::Instance;
use crate::options::Belongings;
use crate::threads::NoAnswer;
use crate::threads::permits::Tenant;
use crate::threads::writable::Writable;
use haft_core::grant::Grant;
use haft_core::limit::Limits;

/// Maximum number of instances for listing the tools of one component: more than an MCP server has pages.
const MAX_INSTANCES: usize = 120;

pub(crate) struct Identity {
    source: Source,
    digest: Digest,
    /// The key of the component's record in the cache: its digest, and that of the WIT file beside it.
    key: Digest,
    sibling_wit: Option<String>,
}

pub(crate) struct Discovered {
    pub(crate) source: Source,
    pub(crate) digest: Digest,
    /// The key of the component's record in the cache.
    pub(crate) key: Digest,
    pub(crate) listing: Listing,
}

/// The code of a component, linked.
#[derive(Clone)]
pub(crate) struct Code {
    pub(crate) linked: LinkedComponent,
    pub(crate) tier: Tier,
}

impl Identity {
    /// Determines the identity of a source's component.
    /// Errors: The file cannot be read, or differs from the pinned one.
    pub(crate) fn of(engine: &Engine, source: Source) -> Result<Self, LoadError> {
        let digest = engine.digest(&source).map_err(|error| unreadable(&source, error))?;
        if !source.admits(&digest) {
            return Err(LoadError::Pinned);
        }
        let sibling_wit = source.sibling_wit();
        let key = digest.combined_with_docs(sibling_wit.as_deref());
        Ok(Self { source, digest, key, sibling_wit })
    }

    pub(crate) fn known(&self, engine: &Engine) -> Option<Listing> {
        let recorded = self.source.recorded().and_then(|text| read_record(text, &self.digest));
        recorded.or_else(|| Some(engine.cache()?.lookup(&self.key)?.listing))
    }

    pub(crate) fn listed(self, listing: Listing) -> Discovered {
        let Self { source, digest, key, .. } = self;
        Discovered { source, digest, key, listing }
    }

    /// Compiles an unknown component and lists its tools without rights. Returns no code if another plugin has
    /// compiled it meanwhile: its code is then in the cache.
    pub(crate) async fn compile_and_list(
        self,
        engine: &Engine,
        name: &str,
        limits: &Limits,
    ) -> Result<(Discovered, Option<Code>), LoadError> {
        let _lock = wait_for_others(engine, &self.key, limits).await;
        if let Some(cached) = engine.cache().and_then(|cache| cache.lookup(&self.key)) {
            return Ok((self.listed(cached.listing), None));
        }
        let no_answer = |no_answer: NoAnswer| LoadError::Internal(no_answer.to_string());
        let (own, source, digest, sibling_wit) =
            (engine.clone(), self.source.clone(), self.digest.clone(), self.sibling_wit.clone());
        let compilation = engine.0.compilations.begin(engine.threads(), name, self.source.size()).await;
        let compiled = move || compile(&own, &unchanged(&source, &digest)?, sibling_wit.as_deref());
        let compiled = engine.threads().own(compiled).await;
        drop(compilation);
        let Compiled { linked, listing, code, config, classes } = compiled.map_err(no_answer)??;
        let listing = match listing {
            Some(listing) if !linked.has_offers => listing,
            listing => list_in_new_instance(engine, name, (&linked, listing), limits).await?,
        };
        let (listing, tier) = (Listing { classes, config, ..listing }.bounded()?, tier_of(code.as_ref()));
        if let Some(code) = code {
            let (own, own_record, own_listing) = (engine.clone(), self.key.clone(), listing.clone());
            let store = move || own.cache().map(|cache| cache.store_listing(&own_record, code, &own_listing));
            engine.threads().own(store).await.map_err(no_answer)?;
        }
        Ok((self.listed(listing), Some(Code { linked, tier })))
    }
}

impl Discovered {
    pub(crate) fn link(&self, engine: &Engine, component: &Component, tier: Tier) -> Result<Code, LoadError> {
        Ok(Code { linked: LinkedComponent::new(engine, component, Some(&self.listing))?, tier })
    }

    /// Compiles the component again with `compile`, because its code was lost or to optimize it, unless the file has
    /// changed.
    pub(crate) fn compile_again(
        &self,
        engine: &Engine,
        compile: fn(&Engine, &[u8]) -> CompileResult,
    ) -> Result<Code, LoadError> {
        let bytes = unchanged(&self.source, &self.digest)?;
        let (component, code) = compile(engine, &bytes)?;
        let tier = tier_of(code.as_ref());
        if let (Some(cache), Some(code)) = (engine.cache(), code) {
            cache.store_listing(&self.key, code, &self.listing);
        }
        self.link(engine, &component, tier)
    }

    /// Returns the component's bytes, if they are unchanged since the compilation.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        let bytes = unchanged(&self.source, &self.digest).ok()?;
        adapt::component(&bytes).ok().map(Cow::into_owned)
    }
}

/// Waits for another plugin of this component, whose result is then in the cache, at most for this plugin's own
/// time limit.
async fn wait_for_others(engine: &Engine, key: &Digest, limits: &Limits) -> Option<OwnedMutexGuard<()>> {
    engine.cache()?;
    tokio::time::timeout(limits.time, engine.0.compilations.lock(key)).await.ok()
}

struct Compiled {
    linked: LinkedComponent,
    /// The listing, if the types are sufficient for it.
    listing: Option<Listing>,
    code: Option<CompiledCode>,
    config: Option<Value>,
    classes: Vec<DeclaredClass>,
}

/// Reads a component again. The digest was computed of an earlier read, and the file may have been replaced since: its
/// code must not be cached, nor run, under the digest of other bytes.
fn unchanged(source: &Source, digest: &Digest) -> Result<Cow<'static, [u8]>, LoadError> {
    let bytes = source.read().map_err(|error| unreadable(source, error))?;
    (Digest::compute(&bytes) == *digest).then_some(bytes).ok_or(LoadError::Changed)
}

fn compile(engine: &Engine, bytes: &[u8], sibling_wit: Option<&str>) -> Result<Compiled, LoadError> {
    let (component, code) = engine.compile(bytes)?;
    let linked = LinkedComponent::new(engine, &component, None)?;
    let sections = sections::read(bytes).unwrap_or_default();
    let listing = linked.kind.listing.map(|of| of(&component, &sections, sibling_wit)).transpose()?;
    let classes = sections.act.map(|about| about.classes).unwrap_or_default();
    Ok(Compiled { linked, listing, code, config: sections.config, classes })
}

/// Requests the tools of a component, unless they are known, and its prompts and resources, without any right.
async fn list_in_new_instance(
    engine: &Engine,
    name: &str,
    (linked, known): (&LinkedComponent, Option<Listing>),
    limits: &Limits,
) -> Result<Listing, LoadError> {
    let no_answer = |no_answer: NoAnswer| LoadError::Internal(no_answer.to_string());
    let (own, own_linked, own_name, own_limits) =
        (engine.clone(), linked.clone(), Arc::<str>::from(name), *limits);
    let permit = engine
        .threads()
        .permits
        .acquire(Tenant::HAFT, || 0, limits.time, &CancellationToken::new())
        .await
        .map_err(|none| LoadError::Internal(none.to_string()))?;
    let listed = engine.threads().run(permit, Writable::default(), move |handle, sender| {
        let listed = handle.block_on(async {
            let listing = match known {
                Some(listing) => listing,
                None => list(&own, &own_linked, own_name.clone(), &own_limits).await?,
            };
            if !own_linked.has_offers {
                return Ok(listing);
            }
            let _ticking = own.0.clock.keep_ticking();
            let asked = instance_to_ask(&own, &own_linked, &own_name, &own_limits).await?.offers().await;
            let offers = offered::check(asked.map_err(|end| not_listed(&end))?)?;
            Ok(Listing { offers, ..listing })
        });
        // Dropped before the answer is sent, so that the receiver can drop the last reference to the code.
        drop((own, own_linked));
        // The send fails if the receiver was dropped, which is not an error.
        let _ = sender.send(listed);
    });
    listed.await.map_err(no_answer)?
}

async fn list(
    engine: &Engine,
    linked: &LinkedComponent,
    name: Arc<str>,
    limits: &Limits,
) -> Result<Listing, LoadError> {
    let _ticking = engine.0.clock.keep_ticking();
    let (begun, mut left) = (Instant::now(), *limits);
    // Each answer of a server may need a new instance. The time limit of one instance applies to all of them.
    for _ in 0..MAX_INSTANCES {
        let instance = instance_to_ask(engine, linked, &name, &left).await?;
        if let Listed::Tools { tools, manner } = instance.list().await.map_err(|end| not_listed(&end))?? {
            return Ok(Listing { manner, ..listing::check(linked.kind.contract, tools)? });
        }
        left.time = limits.time.saturating_sub(begun.elapsed());
    }
    Err(LoadError::Listing(format!("it did not finish within {MAX_INSTANCES} rounds of answers")))
}

async fn instance_to_ask(
    engine: &Engine,
    linked: &LinkedComponent,
    name: &Arc<str>,
    limits: &Limits,
) -> Result<Instance, LoadError> {
    let writable = Some(Writable::default());
    let call = Arc::new(Call { writable, ..Call::none(name, &Arc::new(Grant::none()), limits) });
    let instance = Instance::create(engine, linked, &Belongings::default(), &call).await;
    instance.map_err(|end| not_listed(&end))
}

/// Returns the tier of code; code outside the cache was not compiled quickly.
fn tier_of(code: Option<&CompiledCode>) -> Tier {
    code.map_or(Tier::Optimized, |code| code.tier)
}

fn unreadable(source: &Source, error: std::io::Error) -> LoadError {
    let path = source.path().map_or_else(|| "built in".to_owned(), |path| path.display().to_string());
    LoadError::Read { path, error }
}

fn not_listed(end: &End) -> LoadError {
    LoadError::Listing(end.told(&[]))
}

// The recorded listing of a built-in component, made at its build and embedded with it, so that a listing compiles
// and runs nothing. A record is valid for one component and one version of haft's listing.

/// The record of one component.
#[derive(Serialize, Deserialize)]
struct Record {
    component: Digest,
    version: u32,
    listing: Listing,
}

/// Returns the record of a listing, as text for [`read_record`]: equal listings give equal bytes.
pub(crate) fn write_record(component: &Digest, listing: &Listing) -> serde_json::Result<String> {
    let record = Record { component: component.clone(), version: LISTING, listing: listing.clone() };
    serde_json::to_string_pretty(&record).map(|text| text + "\n")
}

/// Returns the listing in the record of the component with this digest; `None` if the record belongs to another
/// component or version, or is damaged.
fn read_record(text: &str, component: &Digest) -> Option<Listing> {
    let record: Record = serde_json::from_str(text).ok()?;
    (record.component == *component && record.version == LISTING).then_some(record.listing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Contract;

    #[test]
    fn a_record_counts_for_its_component_and_version_alone() {
        let (own, other) = (Digest::compute(b"one"), Digest::compute(b"two"));
        let listing = Listing::new(Contract::Plugin);
        let text = write_record(&own, &listing).unwrap();
        assert_eq!(write_record(&own, &read_record(&text, &own).unwrap()).unwrap(), text);
        assert!(read_record(&text, &other).is_none(), "another component");
        let version = |version: u32| text.replace(&format!(": {LISTING},"), &format!(": {version},"));
        assert_eq!(version(LISTING), text);
        assert!(read_record(&version(LISTING + 1), &own).is_none(), "another version");
        assert!(read_record("", &own).is_none(), "none");
    }
}
