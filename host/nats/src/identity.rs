//! The values that two machines must share before one runs calls of the other: the program's name, its digest, and
//! the definition and bytes of each tool. Rights are not included: each machine has its own.

use haft_core::call::ToolDef;
use haft_core::encoding::hex;
use serde_json::json;
use sha2::{Digest, Sha256};

/// The number of hexadecimal digits of a digest in a subject: 128 bits.
const DIGITS: usize = 32;

/// The name of a program without a name.
pub(crate) const NAMELESS: &str = "_";

/// The identity of a program for gates and workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name, or `_`.
    pub program: String,
    /// The digest of its declarations and its program.lock in hexadecimal.
    pub digest: String,
}

impl Identity {
    /// Returns the identity of the program with this name; `parts`: its declarations and its lock.
    pub fn new(name: Option<&str>, parts: &[&[u8]]) -> Self {
        Self { program: name.unwrap_or(NAMELESS).to_owned(), digest: digest(parts) }
    }
}

/// Returns the digest of a tool's definition and of its component, if the tool is one.
pub fn definition(def: &ToolDef, component: Option<&str>) -> String {
    let ToolDef { name, title, description, parameters, hints, output } = def;
    let whole = json!([name, title, description, parameters, hints, output, component]);
    digest(&[whole.to_string().as_bytes()])
}

/// Hashes several parts, each with its length, so that different lists never give the same input.
fn digest(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut digits = hex(&hasher.finalize());
    digits.truncate(DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_definitions_and_other_bytes_are_other_tools() {
        let def = ToolDef { name: "read".into(), description: "Reads.".into(), ..ToolDef::default() };
        let own = definition(&def, Some("a"));
        assert_eq!(own.len(), DIGITS);
        assert_eq!(own, definition(&def.clone(), Some("a")));
        assert_ne!(own, definition(&def, Some("b")));
        assert_ne!(own, definition(&ToolDef { description: "Deletes.".into(), ..def }, Some("a")));
        let of = |parts: &[&[u8]]| Identity::new(None, parts).digest;
        assert_ne!(of(&[b"a", b"b"]), of(&[b"ab", b""]), "where a part ends is part of it");
    }
}
