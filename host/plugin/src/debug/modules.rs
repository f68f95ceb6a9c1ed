//! The core modules in a file, and their custom sections about their code.

use std::collections::HashMap;
use std::ops::Range;

use wasmparser::{Encoding, KnownCustom, Name, Parser, Payload};
use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of sections and functions of one file, as in `component::sections`.
const MAX_SECTIONS: usize = 1 << 20;

/// Maximum number of core modules of one file: a component with a complete Python has some 30.
const MAX_MODULES: usize = 1000;

/// A core module.
#[derive(Debug, Default)]
pub(super) struct Module<'a> {
    /// The range of the code in the file, including the number of functions: DWARF addresses are relative to its
    /// start.
    pub(super) code: Range<usize>,
    /// The range of each function of the module in the file.
    pub(super) functions: Vec<Range<usize>>,
    /// The number of imported functions, which are counted first.
    pub(super) imported: u32,
    pub(super) custom: HashMap<&'a str, &'a [u8]>,
    pub(super) names: HashMap<u32, &'a str>,
}

/// Returns all core modules of a file in their order, which custom sections do not change, and the content of the
/// custom sections `wanted` of the complete file.
pub(super) fn read<'a>(bytes: &'a [u8], wanted: &str) -> (Vec<Module<'a>>, Vec<&'a [u8]>) {
    let (mut modules, mut found, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for payload in Parser::new(0).parse_all(bytes).map_while(Result::ok).take(MAX_SECTIONS) {
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } if modules.len() < MAX_MODULES => {
                open.push(Some(modules.len()));
                modules.push(Module::default());
            }
            Payload::Version { .. } => open.push(None),
            Payload::End(_) => _ = open.pop(),
            Payload::CustomSection(section) if section.name() == wanted => found.push(section.data()),
            payload => {
                let of = open.last().copied().flatten();
                if let Some(module) = of.and_then(|index| modules.get_mut(index)) {
                    module.note(payload);
                }
            }
        }
    }
    (modules, found)
}

impl<'a> Module<'a> {
    fn note(&mut self, payload: Payload<'a>) {
        match payload {
            Payload::ImportSection(imports) => {
                let all = imports.into_imports().map_while(Result::ok);
                let functions = all.filter(|import| matches!(import.ty, wasmparser::TypeRef::Func(_)));
                self.imported = u32::try_from(functions.count()).unwrap_or(u32::MAX);
            }
            Payload::CodeSectionStart { unchecked_range, .. } => self.code = in_memory(&unchecked_range),
            Payload::CodeSectionEntry(body) => self.functions.push(in_memory(&body.range())),
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(names) = section.as_known() {
                    for subsection in names.into_iter().map_while(Result::ok) {
                        let Name::Function(functions) = subsection else { continue };
                        let named = functions.into_iter().map_while(Result::ok);
                        self.names.extend(named.map(|naming| (naming.index, naming.name)));
                    }
                }
                self.custom.insert(section.name(), section.data());
            }
            _ => {}
        }
    }

    /// Returns a hash of the code: separate debugging information applies only to code with this hash.
    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        xxh3_64(bytes.get(self.code.clone()).unwrap_or_default())
    }

    /// Returns the index of the function at a place in the file.
    pub(super) fn function_at(&self, offset: usize) -> Option<u32> {
        let index = self.functions.partition_point(|function| function.end <= offset);
        self.functions.get(index).filter(|function| function.contains(&offset))?;
        Some(self.imported.saturating_add(u32::try_from(index).ok()?))
    }
}

/// Returns a stretch of a file that is in memory.
fn in_memory(range: &Range<u64>) -> Range<usize> {
    let offset = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    offset(range.start)..offset(range.end)
}
