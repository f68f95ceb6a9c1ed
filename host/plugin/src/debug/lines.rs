//! The source locations of a core module's code, in the compact form that `haft plugin build` writes: some
//! kilobytes, compared to a megabyte of DWARF.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

use super::frame::{Frame, Place};

/// Maximum number of bytes of a section when it is no longer compressed: the lines of a program of some million
/// lines.
const MAX_PLAIN: u64 = 16 << 20;

/// The table of one core module.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lines {
    pub(super) code: u64,
    functions: Vec<String>,
    files: Vec<String>,
    /// The frames at an address, inlined functions first: function, file, line.
    chains: Vec<Vec<(u32, u32, u32)>>,
    /// The validity of the chains: the distance to the previous row, and the number of the chain from 1 on; 0 for
    /// none.
    rows: Vec<(u32, u32)>,
}

/// Builds a table, row by row.
#[derive(Default)]
pub(super) struct Writer {
    lines: Lines,
    last: u32,
    functions: HashMap<String, u32>,
    files: HashMap<String, u32>,
    chains: HashMap<Vec<(u32, u32, u32)>, u32>,
}

impl Lines {
    /// Returns the frames at an address, innermost first; empty if it is in no file of the author.
    pub(super) fn at(&self, address: usize) -> Vec<Frame> {
        let (mut begin, mut chain) = (0_usize, 0);
        for (distance, next) in &self.rows {
            begin = begin.saturating_add(usize::try_from(*distance).unwrap_or(usize::MAX));
            if begin > address {
                break;
            }
            chain = *next;
        }
        let chain = usize::try_from(chain).ok().and_then(|number| self.chains.get(number.checked_sub(1)?));
        chain.into_iter().flatten().map(|frame| self.frame(*frame)).collect()
    }

    fn frame(&self, (function, file, line): (u32, u32, u32)) -> Frame {
        let text = |texts: &[String], index: u32| {
            usize::try_from(index).ok().and_then(|index| texts.get(index)).cloned().unwrap_or_default()
        };
        Frame { function: text(&self.functions, function), place: Place::new(&text(&self.files, file), line) }
    }
}

impl Writer {
    /// Adds a row: the frames from `address` on, which is greater than that of the row before.
    pub(super) fn row(&mut self, address: u32, frames: &[Frame]) {
        let chain: Vec<_> = frames
            .iter()
            .filter_map(|frame| {
                let place = frame.place.as_ref()?;
                let function = number(&mut self.functions, &mut self.lines.functions, &frame.function);
                Some((function, number(&mut self.files, &mut self.lines.files, &place.file), place.line))
            })
            .collect();
        let number =
            if chain.is_empty() { 0 } else { number(&mut self.chains, &mut self.lines.chains, &chain) + 1 };
        if self.lines.rows.last().map_or(0, |(_, last)| *last) != number {
            self.lines.rows.push((address.saturating_sub(self.last), number));
            self.last = address;
        }
    }

    /// Returns the table; `None` if no code is in a file of the author.
    pub(super) fn end(self, code: u64) -> Option<Lines> {
        (!self.lines.rows.is_empty()).then_some(Lines { code, ..self.lines })
    }
}

fn number<T: Clone + Eq + std::hash::Hash>(known: &mut HashMap<T, u32>, all: &mut Vec<T>, item: &T) -> u32 {
    if let Some(number) = known.get(item) {
        return *number;
    }
    let number = u32::try_from(all.len()).unwrap_or(u32::MAX);
    known.insert(item.clone(), number);
    all.push(item.clone());
    number
}

pub(super) fn encode(tables: &[Lines]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    ciborium::into_writer(tables, &mut plain).map_err(io::Error::other)?;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&plain)?;
    encoder.finish()
}

/// Returns the tables of a section; empty if `haft plugin build` did not write it.
pub(super) fn decode(section: &[u8]) -> Vec<Lines> {
    let mut plain = Vec::new();
    let read = ZlibDecoder::new(section).take(MAX_PLAIN).read_to_end(&mut plain);
    read.ok().and_then(|_| ciborium::from_reader(plain.as_slice()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str, line: u32) -> Frame {
        Frame { function: function.into(), place: Place::new(file, line) }
    }

    #[test]
    fn what_was_written_is_found_at_every_address() {
        let (outer, inner) = (frame("outer", "src/lib.rs", 10), frame("inner", "src/lib.rs", 3));
        let inlined = [inner, outer.clone()];
        let mut writer = Writer::default();
        writer.row(100, std::slice::from_ref(&outer));
        writer.row(104, std::slice::from_ref(&outer));
        writer.row(110, &inlined);
        writer.row(120, &[]);
        let lines = writer.end(7).unwrap();
        assert_eq!(lines.rows, [(100, 1), (10, 2), (10, 0)], "equal rows are one");
        let section = encode(&[lines]).unwrap();
        let [lines] = decode(&section).try_into().unwrap();
        for (address, expected) in [
            (0, &[][..]),
            (99, &[]),
            (100, std::slice::from_ref(&outer)),
            (109, std::slice::from_ref(&outer)),
            (110, &inlined),
            (119, &inlined),
            (120, &[]),
            (usize::MAX, &[]),
        ] {
            assert_eq!(lines.at(address), expected, "{address}");
        }
        assert_eq!(lines.code, 7);
    }

    #[test]
    fn what_is_no_table_counts_as_none() {
        assert!(decode(b"").is_empty() && decode(b"nonsense").is_empty());
        let mut bomb = ZlibEncoder::new(Vec::new(), Compression::best());
        bomb.write_all(&vec![0; 64 << 20]).unwrap();
        assert!(decode(&bomb.finish().unwrap()).is_empty(), "no more is unpacked than is allowed");
        // Numbers that lead nowhere.
        let wild = Lines {
            chains: vec![vec![(9, 9, 9)]],
            rows: vec![(u32::MAX, 1), (u32::MAX, 7)],
            ..Lines::default()
        };
        assert_eq!(wild.at(usize::MAX), []);
        assert_eq!(
            wild.at(usize::try_from(u32::MAX).unwrap()),
            [Frame { function: String::new(), place: None }]
        );
    }
}
