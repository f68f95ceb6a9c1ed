//! Reads the sections of a component's file at any depth of nesting: names and custom sections, no code. Everything
//! read is bounded in size and number, because the file may be hostile.

use serde_json::Value;
use wasmparser::{ComponentExternalKind, CustomSectionReader, Parser, Payload};

use crate::component::adapt;
use crate::contract::act::metadata::ActMetadata;
use crate::failure::LoadError;

/// Custom section with the WIT package a component was built from, its documentation included
/// (binary, as `wit_component::encode` makes it). No toolchain keeps the documentation otherwise.
pub const WIT_SECTION: &str = "haft:wit";

/// Custom section with the program.toml of the package in which a component was published, so that a bare component
/// contains its requests.
pub const PROGRAM_SECTION: &str = "haft:program";

/// Custom section with the JSON Schema of the configuration that a plugin reads (`wasi:config`).
pub const CONFIG_SECTION: &str = "haft:config";

/// Custom section with the metadata of an `act:tools` component, in CBOR.
pub const ACT_SECTION: &str = "act:component";

/// Maximum number of sections and functions of one file, including nested ones. A component with a complete Python
/// has some ten thousand; a hostile file may have millions of empty ones.
const MAX_SECTIONS: usize = 1 << 20;

/// Maximum number of names of imports or exports. A library of a thousand functions exports them by interface.
const MAX_NAMES: usize = 20_000;

const MAX_CUSTOM: usize = 1000;

/// Maximum number of bytes of a WIT package with its documentation; all of WASI 0.2 has 250 KB.
const MAX_WIT: usize = 2 << 20;

/// Maximum number of WIT packages of one file: a composed component has several.
const MAX_WITS: usize = 32;

/// Maximum number of bytes of a package's program.toml, of the schema of a configuration, and of the metadata of an
/// `act:tools` component.
const MAX_OUTERMOST: usize = 256 << 10;

const MAX_PRODUCERS: usize = 200;

/// Maximum size in bytes of a short text for registries.
const MAX_LABEL: usize = 4096;

/// The sections of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sections {
    /// The component's exports, in order.
    pub exports: Vec<Extern>,
    /// The component's imports, in order.
    pub imports: Vec<Extern>,
    /// The custom sections, including nested ones.
    pub custom: Vec<Custom>,
    /// The tools that produced the component.
    pub producers: Vec<Producer>,
    /// The number of nested core modules.
    pub modules: usize,
    /// The number of nested components.
    pub components: usize,
    /// Bytes of code.
    pub code: u64,
    /// Bytes of data that memories begin with.
    pub data: u64,
    /// Short texts for registries (`version`, `description`, `authors`, `licenses`, `source`,
    /// `homepage`, `revision`), of the component itself.
    pub labels: Vec<(String, String)>,
    /// The text of [`PROGRAM_SECTION`].
    pub program: Option<String>,
    /// The schema that [`CONFIG_SECTION`] has.
    pub config: Option<Value>,
    /// The metadata in [`ACT_SECTION`].
    pub act: Option<ActMetadata>,
    /// The contents of [`WIT_SECTION`]; the outermost first, and of equals the last.
    pub wit: Vec<Vec<u8>>,
    /// Unusable sections, one line each.
    pub problems: Vec<String>,
}

/// Something that is imported or exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extern {
    /// The name: `wasi:cli/environment@0.2.6`, or a plain one.
    pub name: String,
    /// The kind: an interface, a function or another kind.
    pub kind: ExternKind,
}

/// The kind of an import or export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternKind {
    /// An instance: the functions and types of an interface.
    Interface,
    /// A function of the world itself.
    Function,
    /// A type.
    Type,
    /// A core module, a component or a value: nothing that haft has a use for.
    Other,
}

/// A custom section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Custom {
    /// The name.
    pub name: String,
    /// The size in bytes, without the name.
    pub size: usize,
    /// The number of surrounding modules and components; 0 for the component's own.
    pub depth: usize,
}

/// A tool or language that had a part in making the component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    /// The role: `language`, `processed-by`, `sdk`.
    pub field: String,
    /// The name.
    pub name: String,
    /// The version; may be empty.
    pub version: String,
}

/// The custom sections that registries read (as `wasm-tools metadata` writes them).
const LABELS: [&str; 7] = ["version", "description", "authors", "licenses", "source", "homepage", "revision"];

/// Maximum number of lines about unusable sections.
const MAX_PROBLEMS: usize = 20;

/// Maximum number of characters of a name.
const MAX_NAME: usize = 400;

/// The state of the walk through a file.
#[derive(Default)]
struct Walk {
    found: Sections,
    depth: usize,
    /// The texts of the sections that count when they are the outermost, with their depth.
    program: Option<(usize, String)>,
    config: Option<(usize, Value)>,
    act: Option<(usize, ActMetadata)>,
    wit: Vec<(usize, Vec<u8>)>,
}

/// Reads the sections of a component, or of the adapted form of a WASI preview 1 program.
///
/// # Errors
/// `bytes` are malformed, a core module, or too many sections.
pub fn read(bytes: &[u8]) -> Result<Sections, LoadError> {
    let component = adapt::component(bytes)?;
    let malformed = |error: wasmparser::BinaryReaderError| {
        LoadError::not_a_component(&component, || error.message().to_owned())
    };
    if !component.starts_with(b"\0asm") {
        return Err(LoadError::not_a_component(&component, String::new));
    }
    let mut walk = Walk::default();
    for (index, payload) in Parser::new(0).parse_all(&component).enumerate() {
        if index >= MAX_SECTIONS {
            return Err(LoadError::TooMany(MAX_SECTIONS));
        }
        let payload = payload.map_err(malformed)?;
        walk.step(payload).map_err(malformed)?;
    }
    Ok(walk.end())
}

impl Sections {
    /// Returns the [label](Self::labels) called `name`.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(own, _)| own == name).map(|(_, text)| text.as_str())
    }
}

impl Walk {
    fn step(&mut self, payload: Payload<'_>) -> wasmparser::Result<()> {
        match payload {
            Payload::ModuleSection { .. } => {
                self.depth += 1;
                self.found.modules += 1;
            }
            Payload::ComponentSection { .. } => {
                self.depth += 1;
                self.found.components += 1;
            }
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::CodeSectionStart { size, .. } => self.found.code += u64::from(size),
            Payload::DataSection(data) => {
                let range = data.range();
                self.found.data += range.end.saturating_sub(range.start);
            }
            Payload::ComponentExportSection(exports) if self.depth == 0 => {
                for export in exports {
                    let export = export?;
                    push(&mut self.found.exports, &export.name.full_name(), export.kind);
                }
            }
            Payload::ComponentImportSection(imports) if self.depth == 0 => {
                for import in imports {
                    let import = import?;
                    push(&mut self.found.imports, &import.name.full_name(), import.ty.kind());
                }
            }
            Payload::CustomSection(section) => self.custom(&section),
            _ => {}
        }
        Ok(())
    }

    fn custom(&mut self, section: &CustomSectionReader<'_>) {
        let (name, data, depth) = (section.name(), section.data(), self.depth);
        if self.found.custom.len() < MAX_CUSTOM {
            let name = shortened(name);
            self.found.custom.push(Custom { name, size: data.len(), depth });
        }
        match name {
            "producers" => self.producers(section),
            WIT_SECTION => self.wit(data),
            PROGRAM_SECTION => {
                let text =
                    |data: &[u8]| str::from_utf8(data).map(str::to_owned).map_err(|_| "not UTF-8".into());
                self.outermost(PROGRAM_SECTION, data, text, |walk| &mut walk.program);
            }
            CONFIG_SECTION => {
                let json =
                    |data: &[u8]| serde_json::from_slice(data).map_err(|error| format!("not JSON: {error}"));
                self.outermost(CONFIG_SECTION, data, json, |walk| &mut walk.config);
            }
            ACT_SECTION => {
                self.outermost(ACT_SECTION, data, ActMetadata::decode, |walk| &mut walk.act);
            }
            label if depth == 0 && LABELS.contains(&label) => self.label(label, data),
            _ => {}
        }
    }

    fn producers(&mut self, section: &CustomSectionReader<'_>) {
        let wasmparser::KnownCustom::Producers(fields) = section.as_known() else { return };
        // A malformed entry here is harmless, and ignored.
        for field in fields.into_iter().map_while(Result::ok) {
            for value in field.values.into_iter().map_while(Result::ok) {
                let (field, name) = (shortened(field.name), shortened(value.name));
                let producer = Producer { field, name, version: shortened(value.version) };
                if self.found.producers.len() >= MAX_PRODUCERS {
                    return;
                }
                if !self.found.producers.contains(&producer) {
                    self.found.producers.push(producer);
                }
            }
        }
    }

    fn wit(&mut self, data: &[u8]) {
        if data.len() > MAX_WIT {
            return self.problem(WIT_SECTION, &format!("larger than {} KiB", MAX_WIT >> 10));
        }
        if self.wit.len() < MAX_WITS {
            self.wit.push((self.depth, data.to_vec()));
        }
    }

    /// Reads a section that counts where it is the outermost one, and of equals the last. An error of `read` follows
    /// "cannot be used: ".
    fn outermost<T>(
        &mut self,
        section: &str,
        data: &[u8],
        read: impl FnOnce(&[u8]) -> Result<T, String>,
        kept: fn(&mut Self) -> &mut Option<(usize, T)>,
    ) {
        if data.len() > MAX_OUTERMOST {
            return self.problem(section, &format!("larger than {} KiB", MAX_OUTERMOST >> 10));
        }
        let depth = self.depth;
        match read(data) {
            Ok(found) => {
                let kept = kept(self);
                if kept.as_ref().is_none_or(|(other, _)| depth <= *other) {
                    *kept = Some((depth, found));
                }
            }
            Err(why) => self.problem(section, &why),
        }
    }

    fn label(&mut self, name: &str, data: &[u8]) {
        if let Some(text) = str::from_utf8(data).ok().filter(|text| text.len() <= MAX_LABEL) {
            self.found.labels.retain(|(other, _)| other != name);
            self.found.labels.push((name.to_owned(), text.to_owned()));
        }
    }

    fn problem(&mut self, section: &str, what: &str) {
        if self.found.problems.len() < MAX_PROBLEMS {
            self.found.problems.push(format!("its section `{section}` cannot be used: {what}"));
        }
    }

    fn end(mut self) -> Sections {
        self.wit.reverse();
        self.wit.sort_by_key(|(depth, _)| *depth);
        self.found.wit = self.wit.into_iter().map(|(_, wit)| wit).collect();
        self.found.program = self.program.map(|(_, text)| text);
        self.found.config = self.config.map(|(_, schema)| schema);
        self.found.act = self.act.map(|(_, metadata)| metadata);
        self.found
    }
}

fn push(list: &mut Vec<Extern>, name: &str, kind: ComponentExternalKind) {
    if list.len() < MAX_NAMES {
        let kind = match kind {
            ComponentExternalKind::Instance => ExternKind::Interface,
            ComponentExternalKind::Func => ExternKind::Function,
            ComponentExternalKind::Type => ExternKind::Type,
            _ => ExternKind::Other,
        };
        list.push(Extern { name: shortened(name), kind });
    }
}

/// Returns the beginning of a name, which is all of any that means something.
fn shortened(name: &str) -> String {
    name.chars().take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests;
