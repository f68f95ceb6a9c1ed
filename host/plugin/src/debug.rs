//! Where in its source a guest was when it ended, or while it was at work: for authors, who look for the file and line of
//! their mistake first.
//!
//! A trap knows addresses of code. What they mean is in the component: in a section [`LINES_SECTION`] that `haft build`
//! makes of the DWARF of a compiler, in the DWARF itself, or in the names of functions. Interpreters, and Go, know it
//! themselves, and write it to standard error (`words`). Components are compiled without any of that (`strip`), so that
//! those that differ in nothing else have the same code.

pub(crate) mod compact;
pub(crate) mod dwarf;
pub(crate) mod frame;
pub(crate) mod library;
pub(crate) mod lines;
pub(crate) mod modules;
pub(crate) mod of_plugin;
pub(crate) mod recorder;
pub(crate) mod strip;
pub(crate) mod symbolizer;
pub(crate) mod symbols;
pub(crate) mod words;

/// Custom section with the places of a component's code in its author's files: a list of tables, one a core module, as
/// CBOR, compressed (zlib).
pub const LINES_SECTION: &str = "haft:lines";

pub use self::compact::{Kept, compact};
pub use self::recorder::Recorder;
