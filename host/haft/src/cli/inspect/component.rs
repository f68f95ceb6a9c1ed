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

/// Memory that a component may use while it is asked for its tools, whatever it asks for itself.
const MAX_LISTING_MEMORY: u64 = 1 << 30;

pub(super) struct Subject {
    /// What its tools' names begin with; nothing for one that comes with haft.
    pub(super) name: Option<String>,
    /// What its package says of it.
    pub(super) declared: Option<manifest::Plugin>,
    /// How it is called here.
    pub(super) title: String,
    pub(super) source: Source,
    pub(super) limits: Limits,
}

pub(super) struct Component {
    pub(super) title: String,
    pub(super) size: u64,
    pub(super) digest: Digest,
    /// Its insides, or why they cannot be seen.
    pub(super) sections: Result<Sections, String>,
    /// Which contract it keeps, or why none.
    pub(super) contract: Result<String, String>,
    /// Its tools, or why there is no list; `None` where it was not run.
    pub(super) tools: Option<Result<Tools, String>>,
    /// Bytes of native code, where it has been compiled.
    pub(super) compiled: Option<u64>,
}

pub(super) struct Tools {
    pub(super) all: Vec<(String, ToolDef)>,
    /// What it offers to people beside them, by the names that clients see.
    pub(super) prompts: Vec<(String, ToolDef)>,
    /// What can be read of it, by the URIs that clients see.
    pub(super) resources: Vec<ResourceDef>,
    pub(super) uncallable: Vec<Uncallable>,
}

impl Component {
    /// Looks at `subject`; asks it for its tools unless `no_run`.
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

    /// Whether nothing is wrong with it, as far as was asked.
    pub(super) fn is_sound(&self) -> bool {
        self.sections.is_ok() && self.contract.is_ok() && !matches!(self.tools, Some(Err(_)))
    }

    /// All of it as data.
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

    /// What is wrong with it.
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
                // A plugin is no server.
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
