//! An HTML document as a tree, parsed as browsers parse it, with all errors of its author. The
//! tree is bounded: a page that would exceed all memory is cut. Runs and loads nothing of the
//! page.

mod document;
mod sink;

use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{ParseOpts, parse_document};

pub use self::document::{Document, Node};
use self::sink::Sink;

/// Nodes of a tree. A page of two megabytes has some 60,000; each takes about 100 bytes.
const MAX_NODES: usize = 250_000;

/// Elements inside one another. Browsers stop at 512; time and memory grow with the square.
const MAX_DEPTH: usize = 512;

/// Characters handed to the parser between two looks at the bounds. What one piece can do beyond
/// them is small.
const PIECE: usize = 4 << 10;

/// Parses a page.
pub fn parse(html: &str) -> Document {
    let mut parser = parse_document(Sink::default(), ParseOpts::default());
    let mut rest = html;
    while !rest.is_empty() && !parser.tokenizer.sink.sink.is_full() {
        let (piece, later) = rest.split_at(rest.floor_char_boundary(PIECE));
        parser.process(StrTendril::from_slice(piece));
        rest = later;
    }
    let mut document = parser.finish();
    document.cut = !rest.is_empty();
    document
}

#[cfg(test)]
mod tests;
