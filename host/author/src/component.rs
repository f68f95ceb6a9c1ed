//! Converts a core module to a component, in this process. Does not change the imports and exports of the
//! module.

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding};

use super::wit::{self, Wit};
use haft_core::report::{Problem, Report};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A component.
    Component,
    /// A core module, which is only part of a component.
    Module,
    /// Another format.
    Other,
}

impl Kind {
    /// Detects the format by the first 8 bytes.
    pub fn detect(bytes: &[u8]) -> Self {
        match bytes.first_chunk::<8>() {
            Some(b"\0asm\x0d\0\x01\0") => Self::Component,
            Some(b"\0asm\x01\0\0\0") => Self::Module,
            _ => Self::Other,
        }
    }
}

/// Converts a core module for WASI 0.1 that contains its world's metadata, as `wit-bindgen` embeds it.
pub fn from_module(module: &[u8]) -> Result<Vec<u8>, Report> {
    let made = ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|encoder| encoder.adapter(ADAPTER_NAME, ADAPTER))
        .and_then(ComponentEncoder::encode);
    made.map_err(|error| {
        let problem = Problem::new(format!("cannot make a component of the module: {}", wit::text(&error)));
        problem
            .hint("the module must export the functions of the WIT world, under the names of its bindings")
            .into()
    })
}

/// Converts a core module without its world's metadata, such as a Go compiler's.
pub fn from_plain_module(mut module: Vec<u8>, wit: &Wit) -> Result<Vec<u8>, Report> {
    let (resolve, world) = wit.parts();
    wit_component::embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8, false)
        .map_err(|error| Problem::new(format!("cannot name the module's world: {}", wit::text(&error))))?;
    from_module(&module)
}

/// Reports whether a module contains its world's metadata.
pub fn names_its_world(module: &[u8]) -> bool {
    let is_name = |payload: &wasmparser::Payload<'_>| matches!(payload, wasmparser::Payload::CustomSection(section) if section.name().starts_with("component-type"));
    wasmparser::Parser::new(0).parse_all(module).map_while(Result::ok).any(|payload| is_name(&payload))
}
