//! Converts core modules of WASI preview 1, as `wasm32-wasip1`, wasi-sdk, `TinyGo` and Zig produce them, to
//! components at load time, with the adapter of the Bytecode Alliance.

use std::borrow::Cow;

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER as COMMAND,
};
use wasmparser::{Parser, Payload};
use wit_component::ComponentEncoder;

use crate::failure::LoadError;
use haft_core::net::one_line;

/// The version field of a core module's preamble; a component's is `0d 00 01 00`.
const CORE_MODULE: [u8; 4] = [1, 0, 0, 0];

/// The export of a program with a `main`.
const START: &str = "_start";

pub(crate) fn is_core_module(bytes: &[u8]) -> bool {
    bytes.get(4..8) == Some(&CORE_MODULE)
}

pub(crate) fn is_program(bytes: &[u8]) -> bool {
    let exports = |payload: Payload<'_>| match payload {
        Payload::ExportSection(exports) => exports.into_iter().flatten().any(|export| export.name == START),
        _ => false,
    };
    is_core_module(bytes) && Parser::new(0).parse_all(bytes).map_while(Result::ok).any(exports)
}

/// Returns the component: the bytes themselves, or the adapted program of preview 1.
/// Errors: The bytes are another kind of core module, or import a function that preview 1 does not have.
pub(crate) fn component(bytes: &[u8]) -> Result<Cow<'_, [u8]>, LoadError> {
    if !is_core_module(bytes) {
        return Ok(Cow::Borrowed(bytes));
    }
    if !is_program(bytes) {
        return Err(LoadError::CoreModule);
    }
    let made = ComponentEncoder::default()
        .validate(true)
        .module(bytes)
        .and_then(|encoder| encoder.adapter(NAME, COMMAND))
        .and_then(ComponentEncoder::encode);
    made.map(Cow::Owned).map_err(|error| LoadError::Adapt(one_line(&format!("{error:#}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(text: &str) -> Vec<u8> {
        wat::parse_str(text).unwrap()
    }

    #[test]
    fn a_program_becomes_a_command() {
        let program = module(
            r#"(module
                (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
                (memory (export "memory") 1)
                (func (export "_start") (call $exit (i32.const 3))))"#,
        );
        let made = component(&program).unwrap();
        let exports = crate::component::sections::read(&made).unwrap().exports;
        assert!(exports.iter().any(|export| export.name.starts_with("wasi:cli/run@0.2.")), "{exports:?}");
        assert_eq!(component(&made).unwrap(), made, "a component is left as it is");
    }

    #[test]
    fn other_modules_are_refused_with_the_way_out() {
        let library = module("(module (func (export \"add\")))");
        assert!(matches!(component(&library), Err(LoadError::CoreModule)));
        let foreign = module(
            "(module (import \"env\" \"f\" (func)) (memory (export \"memory\") 1) (func (export \"_start\")))",
        );
        let refused = component(&foreign).unwrap_err().to_string();
        assert!(refused.contains("WASI preview 1") && refused.contains("env"), "{refused}");
    }
}
