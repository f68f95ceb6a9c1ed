//! Maps code to source locations by the DWARF that a compiler of C, C++, Rust or Zig left in a core module.

use std::collections::HashMap;
use std::ops::Range;

use addr2line::gimli::{Dwarf, EndianSlice, Error, LittleEndian, SectionId};
use addr2line::{Context, Location};
use wasmparser::{Encoding, KnownCustom, Name, Parser, Payload};
use xxhash_rust::xxh3::xxh3_64;

use super::frame::{Frame, Place, is_generated, is_library};
use super::lines::{Lines, Writer};

/// Maximum number of bytes of DWARF that are read: a Rust plugin without optimisation and with its dependencies
/// has ten million.
const MAX_DWARF: usize = 64 << 20;

/// Maximum number of functions inlined into each other at one address.
const MAX_INLINED: usize = 32;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

pub(super) struct Debug<'a>(Context<Slice<'a>>);

impl<'a> Debug<'a> {
    pub(super) fn of(module: &Module<'a>) -> Option<Self> {
        module.custom.get(".debug_line")?;
        let size: usize =
            module.custom.iter().filter(|(name, _)| is_debug(name)).map(|(_, data)| data.len()).sum();
        if size > MAX_DWARF {
            return None;
        }
        let section = |id: SectionId| {
            let data = module.custom.get(id.name()).copied().unwrap_or_default();
            Ok::<_, Error>(Slice::new(data, LittleEndian))
        };
        let dwarf = Dwarf::load(section).ok()?;
        Context::from_dwarf(dwarf).ok().map(Self)
    }

    /// Returns the stack frames at an address of the code that are in the author's files, innermost first.
    pub(super) fn at(&self, address: u64) -> Vec<Frame> {
        let Ok(mut found) = self.0.find_frames(address).skip_all_loads() else { return Vec::new() };
        let mut frames = Vec::new();
        for _ in 0..MAX_INLINED {
            let Ok(Some(frame)) = found.next() else { break };
            let place = frame.location.and_then(|at| Place::new(at.file?, at.line.unwrap_or(0)));
            let place = place.filter(|place| !is_library(&place.file));
            let name = frame.function.as_ref().and_then(|name| name.demangle().ok());
            let function = name.map(|name| unhashed(&name).to_owned()).unwrap_or_default();
            frames.extend(place.map(|place| Frame { function, place: Some(place) }));
        }
        frames
    }

    /// Returns a table of all code of the author. Paths below `root` are relative, files elsewhere are not the
    /// author's.
    pub(super) fn table(&self, module: &Module<'_>, root: &str, code: u64) -> Option<Lines> {
        let end = u64::try_from(module.code.len()).unwrap_or(u64::MAX);
        let found = self.0.find_location_range(0, end).ok()?;
        let range = |(begin, length, at): (u64, u64, Location<'_>)| {
            let is_own = at.file.is_some_and(|file| file.starts_with(root));
            (begin, begin.saturating_add(length), is_own && at.line.is_none_or(|line| line == 0))
        };
        let mut ranges: Vec<(u64, u64, bool)> = found.map(range).collect();
        ranges.sort_unstable();
        let (mut writer, mut last) = (Writer::default(), 0);
        for (begin, end, is_on_no_line) in ranges {
            if begin > last {
                // Code between sequences belongs to no file.
                writer.row(u32::try_from(last).ok()?, &[]);
            }
            if end > last {
                // Compiler-generated checks are on no line: each address of them is resolved separately.
                let step = if is_on_no_line { 1 } else { (end - begin).max(1) };
                for address in (begin.max(last)..end).step_by(usize::try_from(step).ok()?) {
                    writer.row(u32::try_from(address).ok()?, &below(self.at(address), root));
                }
                last = end;
            }
        }
        writer.row(u32::try_from(last).ok()?, &[]);
        writer.end(code)
    }
}

/// Returns the frames in files below a folder, with relative paths.
fn below(frames: Vec<Frame>, root: &str) -> Vec<Frame> {
    let own = |frame: Frame| {
        let Place { file, line } = frame.place?;
        let file = file.strip_prefix(root)?.trim_start_matches('/').trim_start_matches("./");
        (!is_generated(file)).then_some(Frame { place: Some(Place::new(file, line)?), ..frame })
    };
    frames.into_iter().filter_map(own).collect()
}

/// Returns the name of a function without the hash that Rust's compiler ends it with: `f` of
/// `f::h0123456789abcdef`.
fn unhashed(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => name,
    }
}

pub(super) fn is_debug(name: &str) -> bool {
    name.starts_with(".debug_")
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debug::LINES_SECTION;

    /// U6: `two(int *p, int *q)` writes to `p` in line 2 and to `q` in line 3 of `/p/src/two.c`, compiled by zig
    /// 0.17.1 with the flags of `haft plugin build`: each of its two checks is reported with its line and its
    /// reason.
    #[test]
    fn each_check_of_a_function_is_told_with_its_line() {
        let bytes = include_bytes!("two.wasm");
        let (modules, _) = read(bytes, LINES_SECTION);
        let lines = Debug::of(&modules[0]).unwrap().table(&modules[0], "/p", 0).unwrap();
        let checks: Vec<Vec<Frame>> = (0..bytes.len()).map(|address| lines.at(address)).collect();
        let of_checks = checks.iter().filter(|frames| frames.len() == 2);
        let mut told: Vec<String> = of_checks
            .map(|frames| {
                assert!(frames[0].function.ends_with("$Alignment, null, or object-size error"), "{frames:?}");
                frames[1].to_string()
            })
            .collect();
        told.dedup();
        assert_eq!(told, ["two (src/two.c:2)", "two (src/two.c:3)"]);
    }
}
