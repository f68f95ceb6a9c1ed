//! From an address in a component to the functions under way there.

use std::borrow::Cow;
use std::ops::Range;

use super::dwarf::Debug;
use super::frame::Frame;
use super::lines::{self, Lines};
use super::modules::Module;
use super::{LINES_SECTION, modules, strip};

/// What is known of the code of one component, as long as its bytes are at hand.
pub(crate) struct Symbolizer<'a> {
    parts: Vec<Part<'a>>,
}

/// One core module of it.
struct Part<'a> {
    module: Module<'a>,
    /// Where the code lies in what was compiled.
    compiled: Range<usize>,
    lines: Option<Lines>,
    debug: Option<Debug<'a>>,
}

impl<'a> Symbolizer<'a> {
    /// Reads a component.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let compiled = strip::for_compiler(bytes);
        let (modules, sections) = modules::read(bytes, LINES_SECTION);
        let (compiled, _) = modules::read(&compiled, LINES_SECTION);
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

    /// The functions under way at an offset in what was compiled that are in the author's files, innermost first.
    pub(crate) fn frames(&self, offset: usize) -> Vec<Frame> {
        let Some((part, address)) = self.find(offset) else { return Vec::new() };
        match (&part.lines, &part.debug) {
            (Some(lines), _) => lines.at(address),
            (None, Some(debug)) => debug.at(address as u64),
            (None, None) => Vec::new(),
        }
    }

    /// The name of the function at an offset, where the component has it.
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
