//! What two machines must agree on before one runs calls of the other: the program's name, its digest, and of each tool
//! its definition and bytes. Rights are no part of it: each machine has its own.

use haft_core::call::ToolDef;
use haft_core::encoding::hex;
use serde_json::json;
use sha2::{Digest, Sha256};

/// Digits of a digest that stand in a subject: 128 bits.
const DIGITS: usize = 32;

/// What stands for a program without a name.
pub(crate) const NAMELESS: &str = "_";

/// A program, as gates and workers tell it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name, or `_`.
    pub program: String,
    /// Hexadecimal digits of what it declares and of its program.lock.
    pub digest: String,
}

impl Identity {
    /// The program of this name, whose declarations and lock are `parts`.
    pub fn new(name: Option<&str>, parts: &[&[u8]]) -> Self {
        Self { program: name.unwrap_or(NAMELESS).to_owned(), digest: digest(parts) }
    }
}

/// The digest of a tool's definition, and of the component that it is, where it is one.
pub fn definition(def: &ToolDef, component: Option<&str>) -> String {
    let ToolDef { name, title, description, parameters, hints, output } = def;
    let whole = json!([name, title, description, parameters, hints, output, component]);
    digest(&[whole.to_string().as_bytes()])
}

/// Of several parts, each with its length, so that no two lists of parts are the same bytes.
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
