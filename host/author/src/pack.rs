//! The component of a toolchain's output, and the sections that haft appends to it: its WIT with the documentation,
//! which no toolchain keeps, and its program.toml with its requests.

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use anyhow::Context;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
};
use wasmparser::{BinaryReader, Validator, WasmFeatures};
use wit_component::{ComponentEncoder, StringEncoding};

use super::wit::{self, Wit};
use haft_core::report::{Problem, Report};
use haft_core::tool::Schema;
use haft_plugin_host::debug::LINES_SECTION;
use haft_plugin_host::{CONFIG_SECTION, PROGRAM_SECTION, WIT_SECTION};

/// Limit on the bytes of a component that haft loads.
pub(crate) const MAX_COMPONENT: u64 = 256 << 20;

/// The file with the schema of a plugin's configuration, in the project's folder.
pub const CONFIG_SCHEMA: &str = "config.schema.json";

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Component,
    /// A core module, which is only part of a component.
    Module,
    /// Another format.
    Other,
}

impl Kind {
    /// Detects the format by the first 8 bytes.
    fn detect(bytes: &[u8]) -> Self {
        match bytes.first_chunk::<8>() {
            Some(b"\0asm\x0d\0\x01\0") => Self::Component,
            Some(b"\0asm\x01\0\0\0") => Self::Module,
            _ => Self::Other,
        }
    }
}

/// Returns the component of a toolchain's output. A core module is converted, with the world of `wit` unless it names
/// its own; its imports and exports do not change.
pub fn component(made: Vec<u8>, wit: Option<&Wit>) -> Result<Vec<u8>, Report> {
    match (Kind::detect(&made), wit) {
        (Kind::Module, Some(wit)) if !names_its_world(&made) => from_plain_module(made, wit),
        (Kind::Module, _) => from_module(&made),
        _ => Ok(made),
    }
}

/// Converts a core module for WASI 0.1 that contains its world's metadata, as `wit-bindgen` embeds it.
fn from_module(module: &[u8]) -> Result<Vec<u8>, Report> {
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
fn from_plain_module(mut module: Vec<u8>, wit: &Wit) -> Result<Vec<u8>, Report> {
    let (resolve, world) = wit.parts();
    wit_component::embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8, false)
        .map_err(|error| Problem::new(format!("cannot name the module's world: {}", wit::text(&error))))?;
    from_module(&module)
}

/// Reports whether a module contains its world's metadata.
fn names_its_world(module: &[u8]) -> bool {
    let is_name = |payload: &wasmparser::Payload<'_>| matches!(payload, wasmparser::Payload::CustomSection(section) if section.name().starts_with("component-type"));
    wasmparser::Parser::new(0).parse_all(module).map_while(Result::ok).any(|payload| is_name(&payload))
}

/// The sections to append; each replaces an existing section of its name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Added<'a> {
    /// A binary WIT package, for the documentation in it.
    pub docs: Option<&'a [u8]>,
    /// The program.toml of the plugin.
    pub program: Option<&'a str>,
    /// The JSON Schema of the configuration.
    pub config: Option<&'a str>,
    /// The source positions of the component's code, from [`haft_plugin_host::debug::compact`].
    pub lines: Option<&'a [u8]>,
}

/// Returns the component with `added` appended. Equal input gives equal bytes.
pub fn finish(component: &[u8], added: Added<'_>) -> anyhow::Result<Vec<u8>> {
    let Added { docs, program, config, lines } = added;
    validate(component)?;
    let mut bytes = Vec::with_capacity(component.len());
    let mut end = 0;
    let replaced = |name: &str| match name {
        WIT_SECTION => docs.is_some(),
        PROGRAM_SECTION => program.is_some(),
        CONFIG_SECTION => config.is_some(),
        LINES_SECTION => lines.is_some(),
        _ => false,
    };
    for old in sections(component, replaced).unwrap_or_default() {
        bytes.extend_from_slice(component.get(end..old.start).unwrap_or_default());
        end = old.end;
    }
    bytes.extend_from_slice(component.get(end..).unwrap_or_default());
    let texts = [(PROGRAM_SECTION, program), (CONFIG_SECTION, config)];
    let texts = texts.map(|(name, text)| (name, text.map(str::as_bytes)));
    for (name, data) in [(WIT_SECTION, docs), (LINES_SECTION, lines)].into_iter().chain(texts) {
        if let Some(data) = data {
            append(&mut bytes, name, data);
        }
    }
    if bytes.len() as u64 > MAX_COMPONENT {
        let problem = Problem::new(format!("the component is too large: {}", size(bytes.len() as u64)));
        return Err(Report::from(problem.hint(format!("haft loads at most {}", size(MAX_COMPONENT)))).into());
    }
    Ok(bytes)
}

/// Reads a file with the JSON Schema of a configuration.
///
/// # Errors
/// The file cannot be read, or is not a schema of an object.
pub fn read_config_schema(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read `{shown}`"))?;
    let schema = serde_json::from_str(&text).with_context(|| format!("`{shown}` is not JSON"))?;
    Schema::of_configuration(&schema)
        .map_err(|error| anyhow::anyhow!("`{shown}` cannot be used: {error}"))?;
    Ok(text)
}

pub(crate) fn validate(bytes: &[u8]) -> Result<(), Report> {
    let why = match Kind::detect(bytes) {
        Kind::Component => match Validator::new_with_features(WasmFeatures::all()).validate_all(bytes) {
            Ok(_) => return Ok(()),
            Err(error) => error.to_string(),
        },
        Kind::Module => "it is a core module, which is only a part of a component".to_owned(),
        Kind::Other => "it is not WebAssembly".to_owned(),
    };
    Err(Problem::new(format!("not a component: {why}")).into())
}

/// Writes a file completely or not at all.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let shown = path.display();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create folder `{}`", folder.display()))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let file = tempfile::Builder::new().prefix(".haft-").permissions(mode).tempfile_in(folder);
    let mut file = file.with_context(|| format!("cannot create a file in `{}`", folder.display()))?;
    file.write_all(bytes).with_context(|| format!("cannot write `{shown}`"))?;
    file.persist(path).map_err(|error| error.error).with_context(|| format!("cannot write `{shown}`"))?;
    Ok(())
}

/// Formats a size for display, with at most one decimal.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{}.{} MiB", bytes >> 20, ((bytes % (1 << 20)) * 10) >> 20),
    }
}

/// Returns the ranges of the component's top-level custom sections whose names `is_selected` accepts. Those of
/// its inner modules are inside other sections.
fn sections(component: &[u8], is_selected: impl Fn(&str) -> bool) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let mut reader = BinaryReader::new(component.get(PREAMBLE..)?, PREAMBLE as u64);
    while !reader.eof() {
        let start = usize::try_from(reader.original_position()).ok()?;
        let (kind, mut body) = (reader.read_u8().ok()?, reader.read_reader().ok()?);
        if kind == 0 && body.read_string().is_ok_and(&is_selected) {
            found.push(start..usize::try_from(reader.original_position()).ok()?);
        }
    }
    Some(found)
}

/// The size of a component's header, in bytes.
const PREAMBLE: usize = 8;

fn append(bytes: &mut Vec<u8>, name: &str, data: &[u8]) {
    let name_length = number(name.len());
    bytes.push(0);
    bytes.extend(number(name_length.len() + name.len() + data.len()));
    bytes.extend(name_length);
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(data);
}

/// Encodes an unsigned LEB128 number.
fn number(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or_default();
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest valid component.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn finishing_twice_is_finishing_once() {
        let all =
            Added { docs: Some(b"wit"), program: Some("text"), config: Some("{}"), lines: Some(b"lines") };
        let once = finish(EMPTY, all).unwrap();
        assert!(once.starts_with(EMPTY) && once.ends_with(b"{}"));
        assert_eq!(finish(&once, all).unwrap(), once);
        // A missing value keeps the old section; a given value replaces it.
        let other = finish(&once, Added { program: Some(&"long ".repeat(100)), ..Added::default() }).unwrap();
        let found = haft_plugin_host::inspect::read_sections(&other).unwrap();
        assert_eq!(found.config, Some(serde_json::json!({})));
        assert_eq!((found.wit, found.program.map(|text| text.len())), (vec![b"wit".to_vec()], Some(500)));
    }

    /// Custom sections with other names, and those of inner modules, are kept.
    #[test]
    fn only_its_own_sections_are_replaced() {
        let mut inner = EMPTY.to_vec();
        append(&mut inner, WIT_SECTION, b"inner");
        let mut outer = EMPTY.to_vec();
        append(&mut outer, "other", b"kept");
        outer.push(4);
        outer.extend(number(inner.len()));
        outer.extend(&inner);
        append(&mut outer, WIT_SECTION, b"old");
        let finished = finish(&outer, Added { docs: Some(b"new"), ..Added::default() }).unwrap();
        let text = String::from_utf8_lossy(&finished).into_owned();
        assert!(
            text.contains("inner") && text.contains("kept") && text.contains("new") && !text.contains("old")
        );
        validate(&finished).unwrap();
    }

    #[test]
    fn what_is_no_component_is_refused() {
        for (bytes, why) in [
            (&b"text"[..], "it is not WebAssembly"),
            (b"", "it is not WebAssembly"),
            (b"\0asm\x01\0\0\0", "a core module"),
            (b"\0asm\x0d\0\x01\0\xff", "not a component: "),
        ] {
            let error =
                finish(bytes, Added { program: Some("text"), ..Added::default() }).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn lengths_are_as_the_format_has_them() {
        for value in [0, 1, 127, 128, 300, 16_383, 16_384, 1 << 27] {
            let read = BinaryReader::new(&number(value), 0).read_var_u32().unwrap();
            assert_eq!(usize::try_from(read), Ok(value));
        }
        assert_eq!(number(300), [0xac, 0x02]);
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(
            (size(1023), size(1025), size(3 << 19)),
            ("1023 bytes".into(), "2 KiB".into(), "1.5 MiB".into())
        );
    }
}
