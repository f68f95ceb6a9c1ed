//! Plugins of a program: those that come with haft and those that program.toml declares, all
//! looked at at once. One that cannot be loaded does not keep the others from it.

use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::{Assembly, Places, approvals, secrets};
use crate::call::ToolDef;
use crate::grant::Grant;
use crate::limit::Limits;
use crate::manifest::{Component, Manifest, Plugin as Declared};
use crate::plugin::{Engine, GrantPlace, LoadError, Plugin, PluginTool, Source};
use crate::report::Problem;
use crate::secret::Secrets;
use crate::tool::{Approval, exposed_name};

/// One plugin on its way into the toolbox.
pub(super) struct Wanted<'a> {
    pub(super) name: String,
    pub(super) source: Source,
    pub(super) grant: Grant,
    /// Where a person would grant more.
    pub(super) place: GrantPlace,
    pub(super) limits: Limits,
    /// What program.toml says of it; nothing for a built-in.
    pub(super) declared: Option<&'a Declared>,
}

impl Assembly<'_> {
    pub(super) async fn plugins(
        &mut self,
        engine: &Engine,
        places: &Places,
        sandbox: &Grant,
        grants: Vec<Grant>,
        secrets: Secrets<'_>,
    ) -> anyhow::Result<()> {
        let mut wanted = self.builtins(sandbox);
        for (plugin, grant) in self.manifest.plugins.iter().zip(grants).filter(|(plugin, _)| plugin.enabled) {
            match declared(self.manifest, places, plugin, grant) {
                Ok(plugin) => wanted.push(plugin),
                Err(problem) => self.problems.push(problem),
            }
        }
        self.files.extend(wanted.iter().filter_map(|wanted| wanted.source.path().map(Path::to_owned)));
        let loaded = if self.known_only { known(engine, &wanted) } else { load_all(engine, &wanted).await };
        for (wanted, loaded) in wanted.iter().zip(loaded) {
            match loaded.transpose() {
                None => self.is_complete = false,
                Some(Ok(mut plugin)) => {
                    if let Some(declared) = wanted.declared {
                        let injections = secrets::of_plugin(declared, secrets, &mut self.problems).await;
                        plugin = plugin.with_injections(injections);
                    }
                    self.add(wanted, &plugin)?;
                }
                Some(Err(error)) => self.problems.push(unloadable(wanted, &error)),
            }
        }
        Ok(())
    }

    /// What has to be asked before the tool `own` of a plugin runs.
    fn approval(&self, wanted: &Wanted<'_>, own: &str) -> Option<Approval> {
        let patterns = wanted.declared.map_or(&[][..], |plugin| &plugin.confirm);
        if patterns.iter().any(|pattern| pattern.matches(own)) {
            return Some(approvals::of_plugin(&wanted.name, own));
        }
        let asks = wanted.place == GrantPlace::FetchAllow && self.manifest.builtins.fetch_confirm;
        asks.then(approvals::of_fetch)
    }

    fn add(&mut self, wanted: &Wanted<'_>, plugin: &Plugin) -> anyhow::Result<()> {
        let origin = wanted.declared.map_or_else(
            || "built in".to_owned(),
            |plugin| format!("plugin `{}` at {}", wanted.name, self.manifest.source.place(plugin.name.span)),
        );
        for own in plugin.tools().iter().filter(|own| is_offered(wanted.declared, &own.name)) {
            let exposed = match wanted.declared {
                None => own.name.clone(),
                Some(_) => exposed_name(&[&wanted.name, &own.name]),
            };
            let described = described(wanted.declared, own);
            let tool = PluginTool::new(plugin, &described, exposed, wanted.place.clone());
            let approval = self.approval(wanted, &own.name);
            self.insert(Arc::new(tool), wanted.grant.clone(), wanted.limits, origin.clone(), approval)?;
        }
        Ok(())
    }
}

fn declared<'a>(
    manifest: &Manifest,
    places: &Places,
    plugin: &'a Declared,
    grant: Grant,
) -> Result<Wanted<'a>, Problem> {
    let Component::File(path) = &plugin.component.value else {
        let problem = Problem::new(format!("plugin `{}` is not on this machine", plugin.name.as_str()));
        let problem = problem.at(plugin.component.span, "only files can be loaded");
        return Err(problem.hint("download the component and name the file here"));
    };
    Ok(Wanted {
        name: plugin.name.as_str().to_owned(),
        source: Source::File(manifest.resolve(path, &places.home)),
        grant,
        place: GrantPlace::Plugin,
        limits: plugin.limits,
        declared: Some(plugin),
    })
}

/// Loads all at once, so that a first start uses every processor.
async fn load_all(engine: &Engine, wanted: &[Wanted<'_>]) -> Vec<Loaded> {
    let mut loading = JoinSet::new();
    for (index, wanted) in wanted.iter().enumerate() {
        let (engine, name) = (engine.clone(), wanted.name.clone());
        let (source, limits) = (wanted.source.clone(), wanted.limits);
        loading.spawn(async move { (index, Plugin::load(&engine, &name, source, &limits).await) });
    }
    let mut loaded = loading.join_all().await;
    loaded.sort_by_key(|(index, _)| *index);
    loaded.into_iter().map(|(_, plugin)| plugin.map(Some)).collect()
}

/// Those that have been seen before.
fn known(engine: &Engine, wanted: &[Wanted<'_>]) -> Vec<Loaded> {
    wanted.iter().map(|wanted| Plugin::known(engine, &wanted.name, &wanted.source)).collect()
}

/// A plugin; nothing where it would have to be looked at first.
type Loaded = Result<Option<Plugin>, LoadError>;

fn unloadable(wanted: &Wanted<'_>, error: &LoadError) -> Problem {
    let problem = Problem::new(format!("plugin `{}` cannot be loaded: {error}", wanted.name));
    match wanted.declared {
        Some(plugin) => problem.at(plugin.component.span, "this component"),
        None => problem,
    }
}

fn is_offered(declared: Option<&Declared>, tool: &str) -> bool {
    let patterns = declared.and_then(|plugin| plugin.tools.as_ref());
    patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(tool)))
}

/// The tool with the description that program.toml gives it, if it gives one.
fn described(declared: Option<&Declared>, own: &ToolDef) -> ToolDef {
    let descriptions = declared.map_or(&[][..], |plugin| &plugin.descriptions);
    let description = descriptions.iter().find(|(name, _)| name.as_str() == own.name);
    ToolDef { description: description.map_or(&own.description, |(_, text)| text).clone(), ..own.clone() }
}
