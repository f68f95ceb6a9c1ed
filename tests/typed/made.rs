//! Components made from WIT and a core module, as by toolchains, and sections appended to them.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The component of a WIT package's only world and a core module in text.
pub(crate) fn component(wit: &str, module: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_source("made.wit", wit).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    let mut module = wat::parse_str(module).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}

/// A WIT package in binary form, with its comments.
pub(crate) fn package(wit: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_source("made.wit", wit).unwrap();
    wit_component::encode(&resolve, package, false).unwrap()
}

/// The component with an additional section at its end.
pub(crate) fn with_section(component: &[u8], name: &str, data: &[u8]) -> Vec<u8> {
    let inner = [leb(name.len()), name.as_bytes().to_vec(), data.to_vec()].concat();
    [component.to_vec(), vec![0], leb(inner.len()), inner].concat()
}

fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 127).unwrap();
        number >>= 7;
        bytes.push(if number > 0 { low | 128 } else { low });
        if number == 0 {
            return bytes;
        }
    }
}

/// A core module with a memory, an allocator and these functions.
pub(crate) fn module(functions: &str) -> String {
    format!(
        r#"(module
            {functions}
            (memory (export "memory") 2) (global $next (mut i32) (i32.const 1024))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (global.set $next (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -16)))
                (global.get $next)
                (global.set $next (i32.add (global.get $next) (local.get 3)))))"#
    )
}
