//! Removes the custom sections of a component: compilers do not need them, and components that differ only in them
//! are compiled once.

use std::borrow::Cow;

use wasmparser::{BinaryReader, BinaryReaderError};

/// Maximum nesting of modules and components. Deeper ones stay unmodified.
const MAX_DEPTH: usize = 8;

/// The version field of a core module's preamble, in which a component has another value.
const CORE: [u8; 4] = [1, 0, 0, 0];

const PREAMBLE: usize = 8;

/// Ids of sections. The numbers of the last two mean something else in a core module.
const CUSTOM: u8 = 0;
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;

/// Returns the sections that wasmtime compiles: branch hints are custom sections too.
pub(crate) fn for_compiler(bytes: &[u8]) -> Cow<'_, [u8]> {
    match without(bytes, &|name| !name.starts_with("metadata.code.")) {
        Ok(stripped) => Cow::Owned(stripped),
        // wasmtime has a better error message.
        Err(_) => Cow::Borrowed(bytes),
    }
}

/// Returns a component or module without the custom sections that `goes` accepts, at every depth.
/// Errors: A section ends beyond the file, or a custom section has no name.
pub(crate) fn without(bytes: &[u8], goes: &dyn Fn(&str) -> bool) -> Result<Vec<u8>, BinaryReaderError> {
    copy(bytes, goes, 0)
}

fn copy(bytes: &[u8], goes: &dyn Fn(&str) -> bool, depth: usize) -> Result<Vec<u8>, BinaryReaderError> {
    let nests = bytes.get(4..PREAMBLE) != Some(&CORE) && depth < MAX_DEPTH;
    let mut reader = BinaryReader::new(bytes, 0);
    let mut copied = Vec::with_capacity(bytes.len());
    copied.extend(reader.read_bytes(PREAMBLE)?);
    while !reader.eof() {
        let id = reader.read_u8()?;
        let size = reader.read_var_u32()?;
        let content = reader.read_bytes(usize::try_from(size).unwrap_or(usize::MAX))?;
        match id {
            CUSTOM if goes(BinaryReader::new(content, 0).read_string()?) => {}
            CORE_MODULE | COMPONENT if nests => section(&mut copied, id, &copy(content, goes, depth + 1)?),
            _ => section(&mut copied, id, content),
        }
    }
    Ok(copied)
}

fn section(bytes: &mut Vec<u8>, id: u8, content: &[u8]) {
    bytes.push(id);
    let mut size = content.len();
    while size > 0x7f {
        bytes.push(u8::try_from(size & 0x7f).unwrap_or_default() | 0x80);
        size >>= 7;
    }
    bytes.push(u8::try_from(size).unwrap_or_default());
    bytes.extend(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"(component
        (core module $m
            (func $named (export "f") (result i32) (i32.const 300))
            (@custom "debug_line" "abc")
            (@custom "metadata.code.branch_hint" "\00"))
        (component (core module (@custom "inner" "x")))
        (@custom "outer" "y"))"#;

    #[test]
    fn custom_sections_of_every_depth_go_and_nothing_else() {
        let bytes = wat::parse_str(TEXT).unwrap();
        let stripped = for_compiler(&bytes);
        let names = |bytes: &[u8]| {
            let sections = crate::component::sections::read(bytes).unwrap();
            sections.custom.into_iter().map(|custom| custom.name).collect::<Vec<_>>()
        };
        assert!(
            names(&bytes).iter().any(|name| name == "inner")
                && names(&bytes).iter().any(|name| name == "name")
        );
        assert_eq!(names(&stripped), ["metadata.code.branch_hint"]);
        assert_eq!(for_compiler(&stripped), stripped, "nothing more to take away");
        let whole = without(&bytes, &|_| false).unwrap();
        assert_eq!(whole, bytes, "sizes are written as toolchains write them");
    }

    #[test]
    fn a_damaged_file_is_left_to_the_compiler() {
        let bytes = wat::parse_str(TEXT).unwrap();
        let cut = &bytes[..bytes.len() - 3];
        assert!(matches!(for_compiler(cut), Cow::Borrowed(same) if same == cut));
        assert!(matches!(for_compiler(b""), Cow::Borrowed([])));
    }
}
