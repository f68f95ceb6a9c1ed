//! Where in its source a guest was when it ended, or while it was at work: for authors, who look for the file and line of
//! their mistake first.
//!
//! A trap knows addresses of code. What they mean is in the component: in a section [`LINES_SECTION`] that `haft plugin build`
//! makes of the DWARF of a compiler, in the DWARF itself, or in the names of functions. Interpreters, and Go, know it
//! themselves, and write it to standard error (`words`). Components are compiled without any of that (`strip`), so that
//! those that differ in nothing else have the same code.

pub(crate) mod dwarf;
pub(crate) mod frame;
pub(crate) mod lines;
pub(crate) mod modules;
pub(crate) mod of_plugin;
pub(crate) mod strip;
pub(crate) mod symbols;
pub(crate) mod words;

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;

use wasmparser::BinaryReaderError;
use wasmtime::{AsContext, AsContextMut, Config, WasmBacktrace, WasmCoreDump};

use self::dwarf::Debug;
use self::lines::Lines;
use self::symbols::{Stack, Symbolizer};
use haft_core::sync::Lock;

/// Custom section with the places of a component's code in its author's files: a list of tables, one a core module, as
/// CBOR, compressed (zlib).
pub const LINES_SECTION: &str = "haft:lines";

// What `haft plugin build` keeps of what a compiler wrote down for debuggers: which line of which file each piece of code is of,
// in a section of some kilobytes.

/// What is kept besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Nothing: the component is to be shipped.
    Lines,
    /// The DWARF and the names of functions, for debuggers and profiles.
    Everything,
}

/// A component or core module whose author's files are those below `root`, as its compiler names it, without
/// what was recorded for debuggers, and the content of its [`LINES_SECTION`], where there was any.
///
/// # Errors
/// The file is malformed.
pub fn compact(
    bytes: &[u8],
    root: &str,
    kept: Kept,
) -> Result<(Vec<u8>, Option<Vec<u8>>), BinaryReaderError> {
    let (modules, _) = modules::read(bytes, LINES_SECTION);
    let table = |module: &modules::Module<'_>| Debug::of(module)?.table(module, root, module.hash(bytes));
    let tables: Vec<Lines> = modules.iter().filter_map(table).collect();
    let stripped = match kept {
        Kept::Lines => strip::without(bytes, &|name| dwarf::is_debug(name) || name == "name")?,
        Kept::Everything => bytes.to_vec(),
    };
    // Writing to memory does not fail.
    let section = (!tables.is_empty()).then(|| lines::encode(&tables).ok()).flatten();
    Ok((stripped, section))
}

// What is taken down of the calls of a process for an author: where guests are at every tick, and the memory and stack of
// one that trapped.

/// Functions under way that are looked at.
const MAX_DEPTH: usize = 256;

/// Different stacks that are kept.
const MAX_STACKS: usize = 100_000;

/// Takes things down. Clones write to the same record.
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
    /// What takes down where guests are (`profile`), and the state of one that traps (`coredump`).
    pub fn new(profile: bool, coredump: bool) -> Self {
        Self(Arc::new(Shared { profile, coredump, recorded: Lock::default() }))
    }

    /// How often guests were seen in which functions, outermost first.
    pub fn profile(&self) -> Vec<(Vec<String>, u64)> {
        self.0.recorded.lock().profile.clone()
    }

    /// The state of the guest that trapped last, as `wasm-tools` and debuggers read it: a module with the sections of
    /// the tool conventions of WebAssembly.
    pub fn coredump(&self) -> Option<Vec<u8>> {
        self.0.recorded.lock().coredump.take()
    }

    /// Whether it is looked at every tick where guests are.
    pub(crate) fn has_profile(&self) -> bool {
        self.0.profile
    }

    /// The settings of an engine that it takes. Compiled code is the same with them.
    pub(crate) fn configure(&self, config: &mut Config) {
        config.coredump_on_trap(self.0.coredump);
        config.wasm_backtrace_max_frames(NonZero::new(MAX_DEPTH));
    }

    /// A guest is at work.
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

    /// A guest ended.
    pub(crate) fn ended(&self, error: &wasmtime::Error, store: impl AsContextMut, name: &str) {
        if let Some(dump) = error.downcast_ref::<WasmCoreDump>() {
            self.0.recorded.lock().coredump = Some(dump.serialize(store, name));
        }
    }

    /// Names the functions of what was seen so far.
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
