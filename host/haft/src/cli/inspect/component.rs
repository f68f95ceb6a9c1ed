//! Describes one component: reads its file, lists its tools in an instance without rights, and tells what its parameters,
//! imports and sections mean. Unavailable facts are reported as unavailable; no function here fails.

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Value, json};

use haft::program::described;
use haft_core::call::{ResourceDef, ToolDef};
use haft_core::limit::Limits;
use haft_core::report::{plain, shortened};
use haft_core::tool::{Offer, Tool, exposed_name};
use haft_manifest as manifest;
use haft_package::Digest;
use haft_plugin_host::inspect::{Extern, ExternKind, Sections, read_sections};
use haft_plugin_host::{Engine, GrantPlace, Plugin, PluginOffer, Source, Uncallable};

/// Memory limit of a component during the request for its tools, whatever limit it requests.
const MAX_LISTING_MEMORY: u64 = 1 << 30;

pub(super) struct Subject {
    /// The prefix of the tools' names. `None` for a component of haft.
    pub(super) name: Option<String>,
    /// The declaration in the component's package.
    pub(super) declared: Option<manifest::Plugin>,
    /// The component's name in the report.
    pub(super) title: String,
    pub(super) source: Source,
    pub(super) limits: Limits,
}

pub(super) struct Component {
    pub(super) title: String,
    pub(super) size: u64,
    pub(super) digest: Digest,
    /// The sections of the file, or the reason why they cannot be read.
    pub(super) sections: Result<Sections, String>,
    /// The contract of the component, or the reason why it has none.
    pub(super) contract: Result<String, String>,
    /// The tools, or the reason why there is no list. `None` if the component was not run.
    pub(super) tools: Option<Result<Tools, String>>,
    /// Size of the native code in bytes, if the component is compiled.
    pub(super) compiled: Option<u64>,
}

pub(super) struct Tools {
    pub(super) all: Vec<(String, ToolDef)>,
    /// The prompts, by the names that clients see.
    pub(super) prompts: Vec<(String, ToolDef)>,
    /// The resources, by the URIs that clients see.
    pub(super) resources: Vec<ResourceDef>,
    pub(super) uncallable: Vec<Uncallable>,
}

impl Component {
    /// Inspects `subject`, and asks it for its tools unless `no_run` is set.
    pub(super) async fn inspect(subject: Subject, engine: &Engine, no_run: bool) -> anyhow::Result<Self> {
        let bytes = subject.read()?;
        let (digest, size) = (Digest::hash(&bytes), bytes.len() as u64);
        let sections = read_sections(&bytes).map_err(|error| error.to_string());
        drop(bytes);
        let contract = match &sections {
            Ok(sections) => sections.contract().map(|one| one.to_string()).map_err(|error| error.to_string()),
            Err(_) => Err("it cannot be read".to_owned()),
        };
        let tools = match (&contract, no_run) {
            (Ok(_), false) => Some(subject.tools(engine, subject.source.clone()).await),
            _ => None,
        };
        let compiled = engine.compiled(&subject.source);
        Ok(Self { title: subject.title, size, digest, sections, contract, tools, compiled })
    }

    /// Returns whether the inspection found no error.
    pub(super) fn is_sound(&self) -> bool {
        self.sections.is_ok() && self.contract.is_ok() && !matches!(self.tools, Some(Err(_)))
    }

    pub(super) fn json(&self) -> Value {
        let sections = self.sections.as_ref().ok();
        let names = |externs: &[Extern]| externs.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        json!({
            "name": self.title,
            "digest": self.digest.to_string(),
            "contract": self.contract.as_ref().ok(),
            "error": self.error(),
            "tools": self.tools.as_ref().and_then(|tools| tools.as_ref().ok()).map(Tools::json),
            "prompts": self.tools.as_ref().and_then(|tools| tools.as_ref().ok()).map(Tools::prompts),
            "resources": self.tools.as_ref().and_then(|tools| tools.as_ref().ok()).map(Tools::resources),
            "uncallable": self.tools.as_ref().and_then(|tools| tools.as_ref().ok()).map(Tools::uncallable),
            "imports": sections.map(|sections| names(&sections.imports)),
            "exports": sections.map(|sections| names(&sections.exports)),
            "sizes": {
                "component": self.size,
                "code": sections.map(|sections| sections.code),
                "data": sections.map(|sections| sections.data),
                "core_modules": sections.map(|sections| sections.modules),
                "components": sections.map(|sections| sections.components),
                "compiled": self.compiled,
            },
            "producers": sections.map(|sections| sections.producers.iter().map(|producer| json!({
                "field": producer.field, "name": producer.name, "version": producer.version,
            })).collect::<Vec<_>>()),
            "labels": sections.map(|sections| sections.labels.iter().cloned().collect::<std::collections::BTreeMap<_, _>>()),
            "sections": sections.map(|sections| sections.custom.iter().map(|section| json!({
                "name": section.name, "bytes": section.size, "depth": section.depth,
                "meaning": section_meaning(&section.name),
            })).collect::<Vec<_>>()),
            "problems": sections.map(|sections| sections.problems.clone()),
        })
    }

    pub(super) fn error(&self) -> Option<&str> {
        let tools = self.tools.as_ref().and_then(|tools| tools.as_ref().err());
        self.sections.as_ref().err().or(self.contract.as_ref().err()).or(tools).map(String::as_str)
    }
}

impl Subject {
    fn read(&self) -> anyhow::Result<Cow<'static, [u8]>> {
        let place = self.source.path().unwrap_or(Path::new(&self.title));
        self.source.read().map_err(|error| anyhow::anyhow!("cannot read `{}`: {error}", place.display()))
    }

    async fn tools(&self, engine: &Engine, source: Source) -> Result<Tools, String> {
        let usual = Limits::default();
        let limits = Limits {
            memory: self.limits.memory.min(MAX_LISTING_MEMORY),
            time: self.limits.time.min(usual.time),
            ..self.limits
        };
        let loaded = Plugin::load(engine, &self.title, source, &limits).await;
        let plugin = loaded.map_err(|error| format!("its tools cannot be listed: {error}"))?;
        let named = |def: &ToolDef| match &self.name {
            Some(name) => exposed_name(&[name, &def.name]),
            None => def.name.clone(),
        };
        let all =
            plugin.tools().iter().map(|def| (named(def), described(self.declared.as_ref(), def))).collect();
        let name = self.name.as_deref().unwrap_or(&self.title);
        let (mut prompts, mut resources) = (Vec::new(), Vec::new());
        for offer in PluginOffer::all(&plugin, name, &GrantPlace::Plugin) {
            match offer.offer() {
                Some(Offer::Prompt(prompt)) => prompts.push((prompt.name.clone(), offer.def().clone())),
                Some(Offer::Resources { list, .. }) => {
                    resources.extend(list.listed.iter().chain(&list.templates).cloned());
                }
                // A plugin is not a server.
                Some(Offer::ServerPrompt { .. } | Offer::ServerResources { .. } | Offer::Skill { .. })
                | None => {}
            }
        }
        Ok(Tools { all, prompts, resources, uncallable: plugin.uncallable().to_vec() })
    }
}

impl Tools {
    fn json(&self) -> Vec<Value> {
        let tool = |(name, def): &(String, ToolDef)| {
            json!({
                "name": name,
                "signature": signature(name, def),
                "description": def.description,
                "parameters": def.parameters,
                "output": def.output,
                "hints": def.hints,
            })
        };
        self.all.iter().map(tool).collect()
    }

    fn prompts(&self) -> Vec<Value> {
        let prompt = |(name, def): &(String, ToolDef)| {
            json!({
                "name": name,
                "title": def.title,
                "description": def.description,
                "parameters": def.parameters,
            })
        };
        self.prompts.iter().map(prompt).collect()
    }

    fn resources(&self) -> Vec<Value> {
        let resource = |one: &ResourceDef| json!({ "uri": one.place, "name": one.name, "description": one.description, "media_type": one.media_type });
        self.resources.iter().map(resource).collect()
    }

    fn uncallable(&self) -> Vec<Value> {
        self.uncallable.iter().map(|one| json!({ "name": one.name, "reason": one.reason })).collect()
    }
}

/// Maximum depth of types. Deeper types are hard to read.
const MAX_DEPTH: usize = 3;
/// Maximum number of choices or fields.
const MAX_PARTS: usize = 6;
/// Maximum characters of a name or choice.
const MAX_WORD: usize = 40;

/// Returns the tool's name with its parameters, and the type of its result if it is declared.
pub(super) fn signature(name: &str, def: &ToolDef) -> String {
    let answer = def.output.as_ref().map(|output| format!(" → {}", kind(output, 0))).unwrap_or_default();
    format!("{}({}){answer}", word(name), fields(&def.parameters, 0).join(", "))
}

/// Returns the properties of an object, with a mark on optional properties.
fn fields(schema: &Value, depth: usize) -> Vec<String> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten().map(|(name, own)| {
        let (name, required, kind) = (word(name), is_required(name), kind(own, depth));
        match kind.strip_suffix(" | null").filter(|_| !required) {
            Some(kind) => format!("{name}?: {kind}"),
            None if required => format!("{name}: {kind}"),
            None => format!("{name}?: {kind}"),
        }
    });
    properties.collect()
}

fn kind(schema: &Value, depth: usize) -> String {
    if depth > MAX_DEPTH {
        return "…".to_owned();
    }
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(value) = schema.get("const") {
        return literal(value);
    }
    if let Some(values) = list("enum") {
        return choice(values.iter().map(literal).collect());
    }
    if let Some(either) = list("anyOf").or_else(|| list("oneOf")) {
        return choice(either.iter().map(|schema| kind(schema, depth + 1)).collect());
    }
    match schema.get("type") {
        Some(Value::String(name)) => named(name, schema, depth),
        Some(Value::Array(names)) => {
            choice(names.iter().filter_map(Value::as_str).map(|name| named(name, schema, depth)).collect())
        }
        _ => "any".to_owned(),
    }
}

fn named(name: &str, schema: &Value, depth: usize) -> String {
    match name {
        "array" => {
            let items = schema.get("items").or_else(|| schema.pointer("/prefixItems/0"));
            let item = items.map_or_else(|| "any".to_owned(), |items| kind(items, depth + 1));
            if item.contains(' ') { format!("({item})[]") } else { format!("{item}[]") }
        }
        "object" if schema.get("properties").is_some() && depth < MAX_DEPTH => {
            format!("{{ {} }}", joined(fields(schema, depth + 1), ", "))
        }
        other => word(other),
    }
}

fn choice(mut kinds: Vec<String>) -> String {
    kinds.dedup();
    joined(kinds, " | ")
}

fn joined(mut parts: Vec<String>, between: &str) -> String {
    if parts.len() > MAX_PARTS {
        parts.truncate(MAX_PARTS);
        parts.push("…".to_owned());
    }
    parts.join(between)
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", word(text)),
        other => word(&other.to_string()),
    }
}

/// Returns third-party text on one line, without control sequences for the terminal, with bounded length.
fn word(text: &str) -> String {
    shortened(&plain(text), MAX_WORD)
}

// The possible meaning of imports. A component names everything that it can be linked with. Toolchains import much
// that is never used, so that imports decide nothing about rights.

/// The imports of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) about: &'static str,
    pub(super) means: &'static str,
    pub(super) names: Vec<String>,
}

/// Prefixes of names, their subject and their effect. The first match is used. The order is the order of the report.
const GROUPS: &[(&[&str], &str, &str)] = &[
    (&["wasi:filesystem/"], "files", "opens files in the granted directories"),
    (&["wasi:http/"], "HTTP", "sends requests to the granted hosts"),
    (
        &["wasi:sockets/"],
        "sockets",
        "connects by TCP to the granted addresses (`hosts = [\"127.0.0.1:5432\"]`); no DNS, no UDP, no \
         listening",
    ),
    (&["wasi:cli/environment"], "environment", "reads the granted environment variables"),
    (&["wasi:keyvalue/"], "state", "stores keys and values, up to the granted `state`"),
    (&["wasi:config/"], "configuration", "reads its configuration (`[plugins.config]`)"),
    (&["wasi:logging/"], "logging", "writes log lines"),
    (
        &["wasi:cli/"],
        "process",
        "its output and exit code; for a program, the arguments and input of its call; no terminal",
    ),
    (&["wasi:clocks/"], "clocks", "the time"),
    (&["wasi:random/"], "random", "random numbers"),
    (&["wasi:io/"], "streams", "types of the other interfaces"),
    (&["haft:plugin/"], "haft", "reports progress and log lines"),
    (&["act:"], "act", "an interface of other hosts of `act:tools`"),
    (&[""], "other", "not provided by haft"),
];

/// Returns the imports in groups. A type is omitted, because it cannot be called.
pub(super) fn grouped(imports: &[Extern]) -> Vec<Group> {
    let place = |name: &str| {
        let fits = |(beginnings, ..): &(&[&str], &str, &str)| {
            beginnings.iter().any(|beginning| name.starts_with(beginning))
        };
        GROUPS.iter().position(fits)
    };
    let group = |(at, (_, about, means)): (usize, &(&[&str], &'static str, &'static str))| {
        let callable = imports.iter().filter(|import| import.kind != ExternKind::Type);
        let own = callable.map(|import| &import.name).filter(|name| place(name) == Some(at));
        Group { about, means, names: own.cloned().collect() }
    };
    GROUPS.iter().enumerate().map(group).filter(|group| !group.names.is_empty()).collect()
}

/// Returns the meaning of a custom section that haft or other programs use.
pub(super) fn section_meaning(name: &str) -> Option<&'static str> {
    let meaning = match name {
        haft_plugin_host::WIT_SECTION => "documentation of its functions",
        haft_plugin_host::PROGRAM_SECTION => "the program.toml of its package: requested rights",
        haft_plugin_host::CONFIG_SECTION => "the JSON Schema of the configuration that it reads",
        haft_plugin_host::ACT_SECTION => "its description for hosts of `act:tools`",
        "name" | "component-name" => "names for debugging",
        "producers" => "compiler and tools",
        "target_features" => "the WebAssembly features that it uses",
        "version" | "description" | "authors" | "licenses" | "source" | "homepage" | "revision" => {
            "a label for registries"
        }
        name if name.starts_with(".debug") => "for debuggers",
        name if name.starts_with("component-type") => "types, for tools that link",
        _ => return None,
    };
    Some(meaning)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(parameters: Value, output: Option<Value>) -> String {
        signature("count", &ToolDef { parameters, output, ..ToolDef::default() })
    }

    #[test]
    fn parameters_are_written_as_somebody_would() {
        let parameters = json!({ "type": "object", "required": ["path"], "properties": {
            "path": { "type": "string" },
            "unit": { "enum": ["lines", "words"] },
            "deep": { "type": ["boolean", "null"] },
            "sizes": { "type": "array", "items": { "anyOf": [{ "type": "integer" }, { "type": "string" }] } },
            "at": { "type": "object", "properties": { "x": { "type": "number" } }, "required": ["x"] },
        } });
        assert_eq!(
            written(parameters, Some(json!({ "type": "array", "items": { "type": "string" } }))),
            "count(path: string, unit?: \"lines\" | \"words\", deep?: boolean, \
             sizes?: (integer | string)[], at?: { x: number }) → string[]"
        );
        assert_eq!(written(json!({ "type": "object" }), None), "count()");
    }

    #[test]
    fn what_is_odd_deep_or_long_stays_short() {
        let mut deep = json!({ "type": "string" });
        for _ in 0..50 {
            deep = json!({ "type": "array", "items": deep });
        }
        let many: Vec<_> = (0..50).map(|at| json!(format!("choice {at}"))).collect();
        let parameters = json!({ "properties": { "a\u{1b}[2J": deep, "b": { "enum": many }, "c": 3 } });
        let text = written(parameters, Some(json!("x".repeat(5000))));
        assert!(text.len() < 300 && !text.contains('\u{1b}'), "{text}");
    }

    /// S06: types alone are not listed as imports that haft would have to provide.
    #[test]
    fn types_are_no_imports_to_speak_of() {
        let kinds = [("point", ExternKind::Type), ("log", ExternKind::Function)];
        let imports = kinds.map(|(name, kind)| Extern { name: name.to_owned(), kind });
        assert_eq!(grouped(&imports)[0].names, ["log"]);
        assert!(grouped(&imports[..1]).is_empty());
    }

    #[test]
    fn every_import_is_in_one_group() {
        let names = [
            "wasi:io/streams@0.2.6",
            "wasi:cli/environment@0.2.6",
            "wasi:cli/stdout@0.2.6",
            "wasi:filesystem/types@0.2.6",
            "x:y/z",
            "plain",
        ];
        let imports = names.map(|name| Extern { name: name.to_owned(), kind: ExternKind::Interface });
        let groups = grouped(&imports);
        let about: Vec<_> = groups.iter().map(|group| group.about).collect();
        assert_eq!(about, ["files", "environment", "process", "streams", "other"]);
        assert_eq!(groups.iter().map(|group| group.names.len()).sum::<usize>(), names.len());
        assert!(grouped(&[]).is_empty());
    }
}
