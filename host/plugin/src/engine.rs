//! The engine that compiles and runs components: one for each process, created for the first component. The cache's key
//! contains the settings, so that a changed setting recompiles every component once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::component::{Component, InstancePre, Linker};

use crate::component::cache::{Cache, CompiledCode};
use crate::component::compile::{Compilations, Tier};
use crate::component::listing::LISTING;
use crate::component::source::{Digest, Source};
use crate::component::{adapt, bounds};
use crate::debug::{Recorder, strip};
use crate::failure::LoadError;
use crate::instance::allocator;
use crate::instance::state::{self, GuestState};
use crate::threads::Threads;
use crate::threads::landlock::LandlockState;
use crate::threads::permits::MAX_GUESTS;
use crate::threads::turns::EpochClock;
use crate::wasi::capability::MAX_RESOURCES;
use crate::wasi::files::ProtectedPathsCache;
use crate::wasi::http::Connector;
use haft_core::event::Events;
use haft_core::grant::Reach;
use haft_core::limit::original_open_files;
use haft_core::net::one_line;
use haft_core::sync::TryOnceLock;

/// The options of an engine.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// The directory of compiled code; `None` compiles everything again in every process.
    pub cache: Option<PathBuf>,
    /// Everything that any tool may write, which the cache must not be part of.
    pub writable: Vec<Reach>,
    /// Keep memory for instances reserved and reuse it. Worth its start-up where many calls are made.
    pub pooling: bool,
    /// Whether to create an instance before the next call of a plugin in use with calls that are long or may write.
    /// Useless in a process with one call.
    pub prewarm: bool,
    /// Receives reports of slow compilations.
    pub events: Events,
    /// The recorder of calls for an author.
    pub recorder: Option<Recorder>,
    /// Compile a component first to slower code in less than half the time, and once more, optimized and concurrently
    /// with its calls, after many calls or a long one. Without a cache, or with a recorder, the first code is
    /// optimized.
    pub tiered: bool,
}

/// A component, and its code in the cache.
pub(super) type CompileResult = Result<(Component, Option<CompiledCode>), LoadError>;

/// Compiles and runs components. Clones share everything.
#[derive(Clone)]
pub struct Engine(pub(super) Arc<EngineShared>);

pub(super) struct EngineShared {
    pub(super) options: EngineOptions,
    calls: TryOnceLock<EngineAndImports>,
    pub(super) clock: EpochClock,
    threads: Threads,
    /// Makes the guests' connections.
    pub(super) client: Arc<Connector>,
    /// The quick compiler, and the compiler beside calls.
    compilers: [OnceLock<Option<wasmtime::Engine>>; 2],
    /// Opened at the first use; `None` if it cannot be used safely.
    cache: OnceLock<Option<Cache>>,
    /// The paths that stay protected from guests, regardless of their rights.
    pub(super) protected_paths: ProtectedPathsCache,
    pub(super) compilations: Compilations,
    idle_slot: Arc<Semaphore>,
}

struct EngineAndImports {
    engine: wasmtime::Engine,
    linker: Linker<GuestState>,
    /// The linker with the rarely imported interfaces, made for the first component that imports one: most import only
    /// WASI 0.2.
    with_later: TryOnceLock<Linker<GuestState>>,
}

impl EngineAndImports {
    fn new(pooling: bool, options: &EngineOptions) -> wasmtime::Result<Self> {
        let mut config = allocator::config(pooling);
        if let Some(recorder) = &options.recorder {
            recorder.configure(&mut config);
        }
        let engine = wasmtime::Engine::new(&config)?;
        let mut linker = Linker::new(&engine);
        state::link(&mut linker)?;
        Ok(Self { engine, linker, with_later: TryOnceLock::new() })
    }

    fn link(&self, component: &Component) -> wasmtime::Result<InstancePre<GuestState>> {
        let (imports, engine) = (component.component_type(), component.engine());
        if !imports.imports(engine).any(|(name, _)| state::has_later(name)) {
            return self.linker.instantiate_pre(component);
        }
        let with_later = || {
            let mut linker = self.linker.clone();
            state::link_later(&mut linker)?;
            wasmtime::error::Ok(linker)
        };
        self.with_later.get_or_try_init(with_later)?.instantiate_pre(component)
    }

    /// Pools instances if the options ask for it and the address space can be reserved.
    fn for_calls(options: &EngineOptions) -> wasmtime::Result<Self> {
        if options.pooling {
            match Self::new(true, options) {
                Err(error) => tracing::debug!(%error, "cannot create the pool of instances"),
                made => return made,
            }
        }
        Self::new(false, options)
    }
}

impl Engine {
    /// Returns an engine whose expensive parts start when the first component is compiled or run. A cache that cannot
    /// be used safely is omitted then, with a warning.
    pub fn new(options: &EngineOptions) -> Self {
        allow_open_files();
        let compilations = Compilations::new(options.events.clone());
        Self(Arc::new(EngineShared {
            options: options.clone(),
            calls: TryOnceLock::new(),
            clock: EpochClock::new(options.recorder.as_ref().is_some_and(Recorder::has_profile)),
            threads: Threads::new(),
            client: Arc::default(),
            compilers: [const { OnceLock::new() }; 2],
            cache: OnceLock::new(),
            protected_paths: ProtectedPathsCache::default(),
            compilations,
            idle_slot: Arc::new(Semaphore::new(allocator::MAX_IDLE)),
        }))
    }

    /// Returns the engine of calls. Starts it, with the threads that every guest needs, if it has not started yet;
    /// not from a guest's thread, but a guest implies a started engine.
    fn calls(&self) -> Result<&EngineAndImports, LoadError> {
        let start = || {
            let part = EngineAndImports::for_calls(&self.0.options).map_err(|error| error.to_string())?;
            self.0.threads.start_own().map_err(|error| error.to_string())?;
            self.0.clock.start(part.engine.weak()).map_err(|error| error.to_string())?;
            Ok(part)
        };
        let calls = self.0.calls.get_or_try_init(start);
        calls.map_err(|error: String| LoadError::Internal(format!("the engine does not start: {error}")))
    }

    /// Returns the restrictions of guests' threads by Landlock that the kernel enforces. If no guest has run yet,
    /// starts a thread for the test.
    pub fn landlock_state(&self) -> LandlockState {
        self.0.threads.pools.state()
    }

    pub(super) fn wasmtime(&self) -> Result<&wasmtime::Engine, LoadError> {
        self.calls().map(|part| &part.engine)
    }

    pub(super) fn threads(&self) -> &Threads {
        &self.0.threads
    }

    /// Returns a permit to hold an idle instance; `None` if the pool is full.
    pub(super) fn idle_slot(&self) -> Option<OwnedSemaphorePermit> {
        self.0.idle_slot.clone().try_acquire_owned().ok()
    }

    /// Returns the cache, if it is usable. Starts the engine, because the cache's key contains its settings.
    pub(super) fn cache(&self) -> Option<&Cache> {
        let directory = self.0.options.cache.as_ref()?;
        let engine = self.wasmtime().ok()?;
        self.0.cache.get_or_init(|| open_cache(directory, &self.0.options, engine)).as_ref()
    }

    pub(super) fn digest(&self, source: &Source) -> std::io::Result<Digest> {
        match source.path().and_then(|_| self.cache()) {
            Some(cache) => cache.digest(source),
            None => source.digest(),
        }
    }

    /// Returns the size in bytes of the component's compiled code, if it is cached.
    pub fn compiled(&self, source: &Source) -> Option<u64> {
        let (cache, digest) = (self.cache()?, self.digest(source).ok()?);
        cache.size(&cache.lookup(&digest.combined_with_docs(source.sibling_wit().as_deref()))?.code)
    }

    pub(super) fn is_tiered(&self) -> bool {
        self.0.options.tiered && self.0.options.recorder.is_none()
    }

    /// Returns the component of compiled code, if it is in the cache and of a tier that this engine runs.
    pub(super) fn load(&self, engine: &wasmtime::Engine, code: &CompiledCode) -> Option<Component> {
        let runs = code.tier == Tier::Optimized || self.is_tiered();
        runs.then(|| self.cache()?.load(engine, code)).flatten()
    }

    /// Returns the compiler of a tier, if that is not the engine of calls.
    fn compiler(&self, tier: Tier) -> Option<&wasmtime::Engine> {
        let [quick, optimizing] = &self.0.compilers;
        let slot = if tier == Tier::Quick { quick } else { optimizing };
        let make = || {
            let mut config = allocator::config(false);
            tier.configure(&mut config);
            wasmtime::Engine::new(&config).inspect_err(|error| tracing::debug!(%error, "no compiler")).ok()
        };
        slot.get_or_init(make).as_ref()
    }

    pub(super) fn compile(&self, bytes: &[u8]) -> CompileResult {
        let tier = if self.is_tiered() { Tier::Quick } else { Tier::Optimized };
        let engine = self.wasmtime()?;
        let compiler = if tier == Tier::Quick { self.compiler(tier).unwrap_or(engine) } else { engine };
        self.compile_with(compiler, tier, bytes)
    }

    /// Compiles a quickly compiled component again with optimizations, on the calling thread alone, and removes the
    /// old code.
    pub(super) fn optimize(&self, bytes: &[u8]) -> CompileResult {
        let compiler = self.compiler(Tier::Optimized).map_or_else(|| self.wasmtime(), Ok)?;
        self.compile_with(compiler, Tier::Optimized, bytes)
    }

    fn compile_with(&self, compiler: &wasmtime::Engine, tier: Tier, bytes: &[u8]) -> CompileResult {
        let bytes = &*adapt::component(bytes)?;
        let invalid = |error: wasmtime::Error| {
            LoadError::not_a_component(bytes, || one_line(&error.root_cause().to_string()))
        };
        bounds::check(bytes).map_err(invalid)?;
        // Components that differ in nothing else are compiled once.
        let stripped = strip::for_compiler(bytes);
        let (engine, bytes) = (self.wasmtime()?, &*stripped);
        let Some(cache) = self.cache() else {
            return Ok((Component::from_binary(engine, bytes).map_err(invalid)?, None));
        };
        let digest = Digest::compute(bytes);
        for kept in [Tier::Optimized, tier] {
            if let Some(code) = cache.code(&digest, kept)
                && let Some(component) = cache.load(engine, &code)
            {
                return Ok((component, Some(code)));
            }
        }
        let code = compiler.precompile_component(bytes).map_err(invalid)?;
        let code = cache
            .store_code(&code, &digest, tier)
            .inspect_err(|error| tracing::warn!(%error, "compiled component not stored"))
            .ok();
        let Some((component, code)) = code.and_then(|code| Some((cache.load(engine, &code)?, code))) else {
            return Ok((Component::from_binary(engine, bytes).map_err(invalid)?, None));
        };
        if tier == Tier::Optimized {
            cache.remove_code(&digest, Tier::Quick, &code);
        }
        Ok((component, Some(code)))
    }

    pub(super) fn link(&self, component: &Component) -> Result<InstancePre<GuestState>, LoadError> {
        self.calls()?.link(component).map_err(|error| LoadError::link(&error))
    }
}

/// Number of descriptors that all guests may open together, and for haft as many as one guest: a guest with all of
/// its files open must not prevent another guest, or a child process, from opening one.
const NEEDED: u64 = ((MAX_GUESTS + 1) * MAX_RESOURCES) as u64;

/// Raises the soft limit of open files to the needed or the allowed number; the default of many systems is 1024.
fn allow_open_files() {
    // Stored first, because children get the original limit.
    original_open_files();
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let limit = maximum.map_or(NEEDED, |maximum| maximum.min(NEEDED));
    if current.is_some_and(|current| current < limit)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum })
    {
        tracing::debug!(%error, "limit of open files not raised");
    }
}

/// Opens the cache in `directory`; `None`, with a warning, if it cannot be used safely.
fn open_cache(directory: &Path, options: &EngineOptions, engine: &wasmtime::Engine) -> Option<Cache> {
    let writable: Vec<&Reach> = options.writable.iter().collect();
    let opened = Cache::open(directory, key(engine), &writable);
    let directory = directory.display();
    opened
        .inspect_err(|error| {
            tracing::warn!("compiled plugins are not stored in `{directory}`: {error}");
        })
        .ok()
}

/// The version of the processing of a component before its compilation, on which positions in compiled code depend.
const COMPILED: u32 = 1;

/// Returns a key of the compiler and the listing: the version of haft and every setting of the engine.
fn key(engine: &wasmtime::Engine) -> String {
    let mut hasher = DefaultHasher::new();
    (env!("CARGO_PKG_VERSION"), LISTING, COMPILED).hash(&mut hasher);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("cache", &self.0.cache).finish_non_exhaustive()
    }
}
