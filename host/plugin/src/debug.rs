//! The source location of a guest when it ended, or while it runs: for plugin authors, who need the file and line
//! of an error.
//!
//! A trap has addresses of code. The component maps them to source locations: in a section [`LINES_SECTION`] that
//! `haft plugin build` makes from a compiler's DWARF, in the DWARF itself, or in the names of functions.
//! Interpreters, and Go, know the location themselves, and write it to standard error (`words`). Components are
//! compiled without any of these sections (`strip`), so that components with equal code share it.

pub(crate) mod dwarf;
pub(crate) mod frame;
pub(crate) mod lines;
pub(crate) mod strip;
pub(crate) mod symbols;
pub(crate) mod words;

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;

use wasmparser::BinaryReaderError;
use wasmtime::{AsContext, AsContextMut, Config, WasmBacktrace, WasmCoreDump};

use self::dwarf::{Debug, Module};
use self::lines::Lines;
use self::symbols::{Stack, Symbolizer};
use haft_core::sync::Lock;

/// Custom section with the source positions of a component's code: a list of tables, one for each core module, as
/// CBOR, compressed with zlib.
pub const LINES_SECTION: &str = "haft:lines";

/// Other custom sections to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Nothing, for a component that is published.
    Lines,
    /// The DWARF and the names of functions, for debuggers and profiles.
    Everything,
}

/// Returns a component or core module without debugging information, and the content of its [`LINES_SECTION`], if
/// there was any. `root` is the folder of the author's files, as the compiler names it.
///
/// # Errors
/// The file is malformed.
pub fn compact(
    bytes: &[u8],
    root: &str,
    kept: Kept,
) -> Result<(Vec<u8>, Option<Vec<u8>>), BinaryReaderError> {
    let (modules, _) = dwarf::read(bytes, LINES_SECTION);
    let table = |module: &Module<'_>| Debug::of(module)?.table(module, root, module.hash(bytes));
    let tables: Vec<Lines> = modules.iter().filter_map(table).collect();
    let stripped = match kept {
        Kept::Lines => strip::without(bytes, &|name| dwarf::is_debug(name) || name == "name")?,
        Kept::Everything => bytes.to_vec(),
    };
    // Writing to memory does not fail.
    let section = (!tables.is_empty()).then(|| lines::encode(&tables).ok()).flatten();
    Ok((stripped, section))
}

/// Maximum number of recorded stack frames.
const MAX_DEPTH: usize = 256;

/// Different stacks that are kept.
const MAX_STACKS: usize = 100_000;

/// Records calls. Clones write to one record.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    profile: bool,
    coredump: bool,
    recorded: Lock<Recorded>,
}

#[derive(Debug, Default)]
struct Recorded {
    samples: HashMap<Stack, u64>,
    profile: Vec<(Vec<String>, u64)>,
    coredump: Option<Vec<u8>>,
}

impl Recorder {
    /// Creates a recorder of stacks (`profile`), and of the state of a trapped guest (`coredump`).
    pub fn new(profile: bool, coredump: bool) -> Self {
        Self(Arc::new(Shared { profile, coredump, recorded: Lock::default() }))
    }

    /// Returns the number of samples of guests in each stack of functions, outermost first.
    pub fn profile(&self) -> Vec<(Vec<String>, u64)> {
        self.0.recorded.lock().profile.clone()
    }

    /// Returns the state of the guest that trapped last, as `wasm-tools` and debuggers read it: a module with the
    /// sections of the tool conventions of WebAssembly.
    pub fn coredump(&self) -> Option<Vec<u8>> {
        self.0.recorded.lock().coredump.take()
    }

    /// Returns whether stacks are recorded at every tick.
    pub(crate) fn has_profile(&self) -> bool {
        self.0.profile
    }

    /// Configures an engine for the recorder. These settings do not change compiled code.
    pub(crate) fn configure(&self, config: &mut Config) {
        config.coredump_on_trap(self.0.coredump);
        config.wasm_backtrace_max_frames(NonZero::new(MAX_DEPTH));
    }

    pub(crate) fn sample(&self, store: impl AsContext) {
        if !self.0.profile {
            return;
        }
        let stack = Stack::from(&WasmBacktrace::force_capture(store));
        let samples = &mut self.0.recorded.lock().samples;
        if samples.len() < MAX_STACKS || samples.contains_key(&stack) {
            *samples.entry(stack).or_default() += 1;
        }
    }

    pub(crate) fn ended(&self, error: &wasmtime::Error, store: impl AsContextMut, name: &str) {
        if let Some(dump) = error.downcast_ref::<WasmCoreDump>() {
            self.0.recorded.lock().coredump = Some(dump.serialize(store, name));
        }
    }

    /// Resolves the functions of the recorded stacks.
    pub(crate) fn name(&self, component: &[u8]) {
        let symbolizer = Symbolizer::new(component);
        let mut recorded = self.0.recorded.lock();
        let samples = std::mem::take(&mut recorded.samples);
        let mut named: HashMap<Vec<String>, u64> =
            std::mem::take(&mut recorded.profile).into_iter().collect();
        for (stack, times) in samples {
            *named.entry(stack.names(&symbolizer)).or_default() += times;
        }
        recorded.profile = named.into_iter().collect();
        recorded.profile.sort();
    }
}
