//! What `haft build` keeps of what a compiler wrote down for debuggers: which line of which file each piece of code is of,
//! in a section of some kilobytes.

use wasmparser::BinaryReaderError;

use super::dwarf::{self, Debug};
use super::lines::{self, Lines};
use super::{LINES_SECTION, modules, strip};

/// What is kept besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Nothing: the component is to be shipped.
    Lines,
    /// The DWARF and the names of functions, for debuggers and profiles.
    Everything,
}

/// A component or core module whose author's files are those below `root`, as its compiler names it, without what was
/// written down for debuggers, and the content of its [`LINES_SECTION`], where there was any.
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
