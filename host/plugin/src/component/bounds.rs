//! What a component may have before it is compiled. wasmtime reads types by recursion without a bound, so that a file of
//! some hundred kilobytes would end the process, and takes 6 KiB for a function of four bytes, so that one of a megabyte
//! would take gigabytes.

use wasmparser::{Parser, Payload};

/// Functions of all modules: half a gigabyte while they are compiled.
const MAX_FUNCTIONS: u32 = 90_000;

/// Reads every type of `bytes` with a parser that has a bound of 100 levels, and counts its functions.
///
/// # Errors
/// The first type that cannot be read, or that there are more than [`MAX_FUNCTIONS`]. What is wrong elsewhere in the
/// file is left to wasmtime, which says it better.
pub(crate) fn check(bytes: &[u8]) -> Result<(), wasmtime::Error> {
    let mut functions = 0_u32;
    for payload in Parser::new(0).parse_all(bytes).map_while(Result::ok) {
        match payload {
            Payload::ComponentTypeSection(types) => types.into_iter().try_for_each(|read| read.map(drop))?,
            Payload::CoreTypeSection(types) => types.into_iter().try_for_each(|read| read.map(drop))?,
            Payload::FunctionSection(own) => functions = functions.saturating_add(own.count()),
            Payload::ComponentCanonicalSection(own) => functions = functions.saturating_add(own.count()),
            _ => {}
        }
        wasmtime::ensure!(functions <= MAX_FUNCTIONS, "it has more than {MAX_FUNCTIONS} functions");
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::check;

    /// A component type within a component type, within one, …
    pub(crate) fn nested(depth: usize) -> Vec<u8> {
        let mut types = b"\x41\x01\x01".repeat(depth);
        types.extend(b"\x41\x00");
        let mut length = types.len() + 1;
        let mut section = vec![7];
        while length > 127 {
            section.push(u8::try_from(length & 127).unwrap() | 128);
            length >>= 7;
        }
        section.push(u8::try_from(length).unwrap());
        section.push(1);
        [b"\0asm\x0d\0\x01\0".to_vec(), section, types].concat()
    }

    #[test]
    fn wa04_types_nest_so_deep_and_no_deeper() {
        let read = || {
            check(&nested(50)).unwrap();
            assert!(check(&nested(200_000)).unwrap_err().to_string().contains("nest"));
        };
        std::thread::Builder::new().stack_size(2 << 20).spawn(read).unwrap().join().unwrap();
    }

    /// X12: what would take gigabytes to compile is refused before.
    #[test]
    fn x12_functions_are_bounded() {
        let component = |functions: usize| {
            let many = "(func)".repeat(functions);
            wat::parse_str(format!("(component (core module {many}) (core module {many}))")).unwrap()
        };
        check(&component(1000)).unwrap();
        assert!(check(&component(50_000)).unwrap_err().to_string().contains("more than 90000 functions"));
    }
}
