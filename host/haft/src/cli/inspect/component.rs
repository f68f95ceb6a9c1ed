//! Describes one component: reads its file, and lists its tools in an instance without rights. Unavailable facts
//! are reported as unavailable; no function here fails.

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Value, json};

use super::compact;
use haft::program::described;
use haft_core::call::{ResourceDef, ToolDef};
use haft_core::limit::Limits;
use haft_core::tool::{Offer, Tool, exposed_name};
use haft_manifest as manifest;
use haft_package::Digest;
use haft_plugin_host::inspect::{Sections, read_sections};
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

    /// Returns the findings as data.
    pub(super) fn json(&self) -> Value {
        let sections = self.sections.as_ref().ok();
        let names = |externs: &[haft_plugin_host::inspect::Extern]| {
            externs.iter().map(|one| one.name.clone()).collect::<Vec<_>>()
        };
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
                "meaning": compact::section(&section.name),
            })).collect::<Vec<_>>()),
            "problems": sections.map(|sections| sections.problems.clone()),
        })
    }

    /// Returns the first error.
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
                "signature": compact::signature(name, def),
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
