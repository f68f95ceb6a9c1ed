//! The source locations at which a plugin's guests ended, resolved once for each kind of end.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use wasmtime::WasmBacktrace;

use super::dwarf::{self, Debug, Module};
use super::frame::Frame;
use super::lines::{self, Lines};
use super::{LINES_SECTION, strip};
use haft_core::sync::Lock;

/// Maximum number of resolved stacks of one plugin: a component may be large, and every call of a plugin can trap.
const MAX_STACKS: usize = 64;

/// Maximum number of reported frames of the author.
pub(crate) const MAX_FRAMES: usize = 12;

/// A guest's stack: offsets in the compiled code, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stack(Vec<usize>);

/// The resolved stacks of one plugin's guests.
#[derive(Debug, Default)]
pub(crate) struct Symbols(Lock<HashMap<Stack, Vec<Frame>>>);

impl Stack {
    pub(crate) fn of(error: &wasmtime::Error) -> Self {
        error.downcast_ref::<WasmBacktrace>().map_or_else(Self::default, Self::from)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns every function on the stack, outermost first, by its known name.
    pub(crate) fn names(&self, symbolizer: &Symbolizer<'_>) -> Vec<String> {
        let names = |offset: &usize| {
            let frames = symbolizer.frames(*offset);
            let named: Vec<String> = frames.into_iter().map(|frame| frame.function).collect();
            let unnamed = || symbolizer.name(*offset).map_or_else(|| "(library)".to_owned(), Cow::into_owned);
            if named.is_empty() { vec![unnamed()] } else { named }
        };
        let mut all: Vec<String> = self.0.iter().flat_map(names).collect();
        all.reverse();
        // Consecutive functions without a name are shown as one line.
        all.dedup_by(|next, before| next == before && next == "(library)");
        all
    }
}

impl From<&WasmBacktrace> for Stack {
    fn from(backtrace: &WasmBacktrace) -> Self {
        Self(backtrace.frames().iter().filter_map(wasmtime::FrameInfo::module_offset).collect())
    }
}

impl Symbols {
    /// Returns the frames of a stack; `read` returns the component's bytes, if they are unchanged since the
    /// compilation.
    pub(crate) fn frames(&self, stack: &Stack, read: impl FnOnce() -> Option<Vec<u8>>) -> Vec<Frame> {
        if let Some(frames) = self.0.lock().get(stack) {
            return frames.clone();
        }
        if stack.is_empty() || self.0.lock().len() >= MAX_STACKS {
            return Vec::new();
        }
        let resolved = |bytes: Vec<u8>| {
            let symbolizer = Symbolizer::new(&bytes);
            stack.0.iter().flat_map(|offset| symbolizer.frames(*offset)).take(MAX_FRAMES).collect()
        };
        let frames: Vec<Frame> = read().map(resolved).unwrap_or_default();
        self.0.lock().insert(stack.clone(), frames.clone());
        frames
    }
}

/// The debugging information of one component, while its bytes are in memory.
pub(crate) struct Symbolizer<'a> {
    parts: Vec<Part<'a>>,
}

struct Part<'a> {
    module: Module<'a>,
    /// The range of the code in the compiled code.
    compiled: Range<usize>,
    lines: Option<Lines>,
    debug: Option<Debug<'a>>,
}

impl<'a> Symbolizer<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let compiled = strip::for_compiler(bytes);
        let (modules, sections) = dwarf::read(bytes, LINES_SECTION);
        let (compiled, _) = dwarf::read(&compiled, LINES_SECTION);
        let mut tables: Vec<Lines> = sections.into_iter().flat_map(lines::decode).collect();
        let part = |(module, compiled): (Module<'a>, Module<'_>)| {
            let hash = module.hash(bytes);
            let found = tables.iter().position(|table| table.code == hash);
            let lines = found.map(|index| tables.swap_remove(index));
            let debug = Debug::of(&module).filter(|_| lines.is_none());
            Part { module, compiled: compiled.code, lines, debug }
        };
        Self { parts: modules.into_iter().zip(compiled).map(part).collect() }
    }

    /// Returns the frames at an offset in the compiled code that are in the author's files, innermost first.
    pub(crate) fn frames(&self, offset: usize) -> Vec<Frame> {
        let Some((part, address)) = self.find(offset) else { return Vec::new() };
        match (&part.lines, &part.debug) {
            (Some(lines), _) => lines.at(address),
            (None, Some(debug)) => debug.at(address as u64),
            (None, None) => Vec::new(),
        }
    }

    /// Returns the name of the function at an offset, if the component has it.
    pub(crate) fn name(&self, offset: usize) -> Option<Cow<'_, str>> {
        let (part, address) = self.find(offset)?;
        let index = part.module.function_at(part.module.code.start.checked_add(address)?)?;
        let name = part.module.names.get(&index)?;
        Some(addr2line::demangle_auto(Cow::Borrowed(name), None))
    }

    fn find(&self, offset: usize) -> Option<(&Part<'a>, usize)> {
        let part = self.parts.iter().find(|part| part.compiled.contains(&offset))?;
        Some((part, offset - part.compiled.start))
    }
}
