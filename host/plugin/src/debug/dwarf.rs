//! The places of code by the DWARF that a compiler of C, C++, Rust or Zig left in a core module.

use addr2line::Context;
use addr2line::gimli::{Dwarf, EndianSlice, Error, LittleEndian, SectionId};

use super::frame::{Frame, Place};
use super::library::{is_generated, is_library};
use super::lines::{Lines, Writer};
use super::modules::Module;

/// Bytes of DWARF that are read: a Rust plugin without optimisation and with its dependencies has ten million.
const MAX_DWARF: usize = 64 << 20;

/// Functions inlined into each other at one address.
const MAX_INLINED: usize = 32;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The DWARF of one module.
pub(super) struct Debug<'a>(Context<Slice<'a>>);

impl<'a> Debug<'a> {
    /// The DWARF of `module`, where it has some that can be read.
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

    /// The functions under way at an address of the code that are in files of the author's, innermost first.
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

    /// A table of all code of the author's. Of paths below `root` the rest is told, files elsewhere are not the author's.
    pub(super) fn table(&self, module: &Module<'_>, root: &str, code: u64) -> Option<Lines> {
        let end = u64::try_from(module.code.len()).unwrap_or(u64::MAX);
        let found = self.0.find_location_range(0, end).ok()?;
        let mut ranges: Vec<(u64, u64)> =
            found.map(|(begin, length, _)| (begin, begin.saturating_add(length))).collect();
        ranges.sort_unstable();
        let (mut writer, mut last) = (Writer::default(), 0);
        for (begin, end) in ranges {
            if begin > last {
                // What lies between belongs to no file.
                writer.row(u32::try_from(last).ok()?, &[]);
            }
            if end > last {
                writer.row(u32::try_from(begin.max(last)).ok()?, &below(self.at(begin), root));
                last = end;
            }
        }
        writer.row(u32::try_from(last).ok()?, &[]);
        writer.end(code)
    }
}

/// Those frames that are in files below a folder, by the rest of their paths.
fn below(frames: Vec<Frame>, root: &str) -> Vec<Frame> {
    let own = |frame: Frame| {
        let Place { file, line } = frame.place?;
        let file = file.strip_prefix(root)?.trim_start_matches('/').trim_start_matches("./");
        (!is_generated(file)).then_some(Frame { place: Some(Place::new(file, line)?), ..frame })
    };
    frames.into_iter().filter_map(own).collect()
}

/// The name of a function without the hash that Rust's compiler ends it with: `f` of `f::h0123456789abcdef`.
fn unhashed(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => name,
    }
}

/// Whether a section is one of DWARF.
pub(super) fn is_debug(name: &str) -> bool {
    name.starts_with(".debug_")
}
