//! Plugins of a program: those that come with haft and those that program.toml declares, all
//! looked at at once. One that cannot be loaded does not keep the others from it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::task::JoinSet;

use super::packages::{self, Pinned};
use super::{Assembly, Dirs, approvals, patterns, secrets};
use haft_core::call::ToolDef;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::manifest::{
    Component, Located, Manifest, Package, Plugin as Declared, PluginSecret, ToolPattern,
};
use haft_core::report::{Problem, Span};
use haft_core::secret::Secrets;
use haft_core::tool::{Approval, exposed_name};
use haft_package::disclosure::Disclosure;
use haft_package::{Digest, Kind, Pin};
use haft_plugin_host::{Engine, GrantPlace, LoadError, Plugin, PluginTool, Source, Uncallable};

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
    /// The package it came in. What is declared is the package's then, and the program has its say here.
    pub(super) package: Option<&'a Package>,
    /// The definitions that somebody agreed to, where it is installed.
    pub(super) agreed: Option<Agreed>,
}

/// Digests of the definitions that somebody was shown and agreed to, by exposed names.
pub(super) type Agreed = Arc<BTreeMap<String, Digest>>;

/// What a pin says of them; nothing where an earlier haft noted none.
pub(super) fn agreed(pin: &Pin) -> Option<Agreed> {
    pin.disclosed.as_ref().map(|digests| Arc::new(digests.tools.clone()))
}

impl Wanted<'_> {
    /// The headers that the program gives it: those of a package by the names that it asks for.
    fn secrets(&self) -> Vec<&PluginSecret> {
        let Some(declared) = self.declared else { return Vec::new() };
        let Some(package) = self.package else { return declared.secrets.iter().collect() };
        let is_asked =
            |secret: &&PluginSecret| declared.secrets.iter().any(|asked| asked.name == secret.name);
        package.secrets.iter().filter(is_asked).collect()
    }

    /// Whether the tool that is `own` to the plugin is offered under its exposed name.
    fn offers(&self, own: &str, exposed: &str) -> bool {
        is_offered(self.declared, own)
            && self.package.is_none_or(|package| packages::offers(package, exposed))
    }

    /// Whether the tool is what somebody agreed to. A component runs to say what it has, and may say another
    /// thing another day.
    fn is_agreed_to(&self, own: &ToolDef) -> bool {
        let Some(agreed) = &self.agreed else { return true };
        // What the program itself says of a tool is its own.
        let def = described(self.declared.filter(|_| self.package.is_some()), own);
        let name = exposed_name(&[&self.name, &own.name]);
        agreed.get(&name) == Some(&Disclosure::definition_digest(ToolDef { name: name.clone(), ..def }))
    }

    /// What the names of its tools begin with.
    fn prefix(&self) -> String {
        self.declared.map_or_else(String::new, |_| patterns::of_plugin(&self.name))
    }

    /// Whether it is a file of its author's, which nothing but they can put right.
    fn is_own_file(&self) -> bool {
        self.declared.is_some_and(|plugin| matches!(plugin.component.value, Component::File(_)))
    }

    /// Where it stands in the program's file.
    fn span(&self) -> Option<Span> {
        let own = self.declared.map(|plugin| plugin.component.span);
        self.package.map(|package| package.name.span).or(own)
    }
}

/// Those that may have a tool called `only`, and the others. Without `only` all of them may.
pub(super) fn apart<'a>(wanted: Vec<Wanted<'a>>, only: Option<&str>) -> (Vec<Wanted<'a>>, Vec<Wanted<'a>>) {
    let Some(only) = only else { return (wanted, Vec::new()) };
    // An exposed name begins with the plugin's, even where it had to be shortened.
    let plugin = only.split_once("__").map(|(plugin, _)| plugin);
    let may_have = |wanted: &Wanted<'_>| match (plugin, wanted.declared) {
        (Some(plugin), Some(_)) => wanted.name.eq_ignore_ascii_case(plugin),
        (None, None) => true,
        _ => false,
    };
    wanted.into_iter().partition(may_have)
}

impl<'m> Assembly<'m> {
    /// The plugins that come with haft and those that the program declares, where they are enabled, with
    /// what each may do: `grants` are those of the declared ones.
    pub(super) fn wanted(
        &mut self,
        places: &Dirs,
        sandbox: &Grant,
        grants: Vec<Grant>,
        pinned: &Pinned<'_>,
    ) -> Vec<Wanted<'m>> {
        let mut wanted: Vec<Wanted<'m>> = self.builtins(sandbox);
        for (plugin, grant) in self.manifest.plugins.iter().zip(grants).filter(|(plugin, _)| plugin.enabled) {
            match declared(self.manifest, places, plugin, grant, pinned) {
                Ok(plugin) => wanted.push(plugin),
                Err(problem) => self.problems.push(problem),
            }
        }
        wanted
    }

    /// Loads plugins and puts their tools in.
    pub(super) async fn plugins(
        &mut self,
        engine: &Engine,
        wanted: Vec<Wanted<'m>>,
        secrets: Secrets<'_>,
    ) -> anyhow::Result<()> {
        self.files.extend(wanted.iter().filter_map(|wanted| wanted.source.path().map(Path::to_owned)));
        let loaded = if self.known_only { known(engine, &wanted) } else { load_all(engine, &wanted).await };
        for (wanted, loaded) in wanted.iter().zip(loaded) {
            match loaded.transpose() {
                None => {
                    self.is_complete = false;
                    self.unseen
                        .note(wanted.prefix(), format!("plugin `{}` was not looked at yet", wanted.name));
                }
                Some(Ok(mut plugin)) => {
                    if let Some(declared) = wanted.declared {
                        let own = wanted.secrets();
                        let injections = secrets::of_plugin(own, secrets, &mut self.problems).await;
                        plugin = plugin.with_injections(injections);
                        // What a package asks for here is not its own to decide: the program opts in.
                        if let Some(reuse) = declared.reuse.filter(|_| wanted.package.is_none()) {
                            plugin = plugin.with_reuse(reuse);
                        }
                    }
                    let named =
                        |one: &Uncallable| format!("`{}` of `{}` {}", one.name, wanted.name, one.reason);
                    self.uncallable.extend(plugin.uncallable().iter().map(named));
                    self.add(wanted, &plugin)?;
                }
                Some(Err(error)) => {
                    self.unseen.note(wanted.prefix(), format!("plugin `{}` cannot be loaded", wanted.name));
                    self.problems.push(unloadable(wanted, &error));
                }
            }
        }
        Ok(())
    }

    /// What has to be asked before the tool `own` of a plugin runs. Where a pattern names no tool of the plugin
    /// nobody knows which was meant, so that all of them ask.
    fn approval(&self, wanted: &Wanted<'_>, plugin: &Plugin, own: &str) -> Option<Approval> {
        let patterns = wanted.declared.map_or(&[][..], |plugin| &plugin.confirm);
        let is_misspelt =
            |pattern: &ToolPattern| !plugin.tools().iter().any(|tool| pattern.matches(&tool.name));
        if patterns.iter().any(|pattern| pattern.matches(own) || is_misspelt(pattern)) {
            return Some(approvals::of_plugin(&wanted.name, own));
        }
        let asks = wanted.place == GrantPlace::FetchAllow && self.manifest.builtins.fetch_confirm;
        asks.then(approvals::of_fetch)
    }

    /// Notes what program.toml says of tools that the plugin does not have. What a package's own says is for its
    /// author to put right.
    fn misnamed(&mut self, wanted: &Wanted<'_>, plugin: &Plugin) {
        let Some(declared) = wanted.declared.filter(|_| wanted.package.is_none()) else { return };
        let uncallable = plugin.uncallable().iter().map(|one| one.name.as_str());
        let names: Vec<&str> =
            plugin.tools().iter().map(|tool| tool.name.as_str()).chain(uncallable).collect();
        let (owner, span) = (format!("plugin `{}`", wanted.name), declared.name.span);
        let mut of = |key, patterns: &[ToolPattern]| {
            self.problems.extend(patterns::problems(&owner, (key, span), &names, patterns));
        };
        of("tools", declared.tools.as_deref().unwrap_or_default());
        of("confirm", &declared.confirm);
        for (name, _) in &declared.descriptions {
            let own: Vec<ToolPattern> = name.as_str().parse().into_iter().collect();
            self.problems.extend(patterns::problems(&owner, ("descriptions", name.span), &names, &own));
        }
    }

    fn add(&mut self, wanted: &Wanted<'_>, plugin: &Plugin) -> anyhow::Result<()> {
        let origin = match (wanted.package, wanted.declared) {
            (Some(package), _) => format!("plugin `{}` of {}", wanted.name, self.origin_of(package)),
            (None, Some(plugin)) => {
                format!("plugin `{}` at {}", wanted.name, self.manifest.source.place(plugin.name.span))
            }
            (None, None) => "built in".to_owned(),
        };
        self.misnamed(wanted, plugin);
        for own in plugin.tools() {
            let exposed = match wanted.declared {
                None => own.name.clone(),
                Some(_) => exposed_name(&[&wanted.name, &own.name]),
            };
            if !wanted.offers(&own.name, &exposed) {
                continue;
            }
            if !wanted.is_agreed_to(own) {
                self.problems.push(not_agreed_to(wanted, &exposed));
                continue;
            }
            let described = described(wanted.declared, own);
            let tool = PluginTool::new(plugin, &described, exposed, wanted.place.clone());
            let (grant, approval) = (wanted.grant.clone(), self.approval(wanted, plugin, &own.name));
            let inserted = self.insert(Arc::new(tool), grant, wanted.limits, origin.clone(), approval);
            match (inserted, wanted.package) {
                // Somebody else's choice of names does not keep the rest from working.
                (Err(error), Some(package)) => self.left_out(package, error.to_string()),
                (inserted, _) => inserted?,
            }
        }
        Ok(())
    }
}

fn declared<'a>(
    manifest: &Manifest,
    places: &Dirs,
    plugin: &'a Declared,
    grant: Grant,
    pinned: &Pinned<'_>,
) -> Result<Wanted<'a>, Problem> {
    let (name, component) = (plugin.name.as_str(), &plugin.component);
    let source = Located { value: component.value.source(), span: component.span };
    let pin = pinned.of(Kind::Plugin, name, &source)?;
    let source = match (&component.value, pin) {
        (Component::File(path), None) => Source::File(manifest.resolve(path, &places.home)),
        (Component::File(path), Some(pin)) => {
            Source::Pinned(manifest.resolve(path, &places.home), pin.kept.hex().to_owned())
        }
        (_, Some(pin)) if pinned.store.has(&pin.kept) => {
            Source::Pinned(pinned.store.component(&pin.kept), pin.kept.hex().to_owned())
        }
        _ => return Err(packages::not_installed(name, component.span)),
    };
    Ok(Wanted {
        name: name.to_owned(),
        source,
        grant,
        place: GrantPlace::Plugin,
        limits: plugin.limits,
        declared: Some(plugin),
        package: None,
        agreed: pin.and_then(agreed),
    })
}

/// Loads all: those that are known already one after the other, which takes less time than to hand
/// them out, the others at once, so that a first start uses every processor.
async fn load_all(engine: &Engine, wanted: &[Wanted<'_>]) -> Vec<Loaded> {
    let mut loaded: Vec<Option<Result<Plugin, LoadError>>> = Vec::with_capacity(wanted.len());
    let mut loading = JoinSet::new();
    for (index, wanted) in wanted.iter().enumerate() {
        let (engine, name) = (engine.clone(), wanted.name.clone());
        let (source, limits) = (wanted.source.clone(), wanted.limits);
        let mut load = Box::pin(async move { Plugin::load(&engine, &name, source, &limits).await });
        match load.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(plugin) => loaded.push(Some(plugin)),
            Poll::Pending => {
                loading.spawn(async move { (index, load.await) });
                loaded.push(None);
            }
        }
    }
    for (index, plugin) in loading.join_all().await {
        if let Some(place) = loaded.get_mut(index) {
            *place = Some(plugin);
        }
    }
    loaded.into_iter().flatten().map(|plugin| plugin.map(Some)).collect()
}

/// Those that have been seen before.
fn known(engine: &Engine, wanted: &[Wanted<'_>]) -> Vec<Loaded> {
    wanted.iter().map(|wanted| Plugin::known(engine, &wanted.name, wanted.source.clone())).collect()
}

/// A plugin; nothing where it would have to be looked at first.
type Loaded = Result<Option<Plugin>, LoadError>;

fn unloadable(wanted: &Wanted<'_>, error: &LoadError) -> Problem {
    let problem = Problem::new(format!("plugin `{}` cannot be loaded: {error}", wanted.name));
    let problem = match wanted.span() {
        Some(span) => problem.at(span, "this component"),
        None => problem,
    };
    match (error, wanted.package) {
        (LoadError::Pinned, None) if wanted.is_own_file() => {
            problem.hint(format!("`haft update {}` shows what it is now and asks again", wanted.name))
        }
        (LoadError::Pinned, _) => {
            problem.hint("`haft add` fetches it again; `haft verify` checks everything")
        }
        _ => problem,
    }
}

fn is_offered(declared: Option<&Declared>, tool: &str) -> bool {
    let patterns = declared.and_then(|plugin| plugin.tools.as_ref());
    patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(tool)))
}

/// What is said of a tool that is not what somebody agreed to.
fn not_agreed_to(wanted: &Wanted<'_>, exposed: &str) -> Problem {
    let (name, span) = match (wanted.package, wanted.span()) {
        (Some(package), _) => (package.name.as_str(), Some(package.name.span)),
        (None, span) => (wanted.name.as_str(), span),
    };
    let problem = Problem::new(format!("the tool `{exposed}` says something else than what was agreed to"));
    let problem = problem.hint(format!("`haft update {name}` shows what it says now and asks again"));
    span.into_iter().fold(problem, |problem, span| problem.at(span, "left out"))
}

/// The tool with the description that program.toml gives it, if it gives one.
pub(crate) fn described(declared: Option<&Declared>, own: &ToolDef) -> ToolDef {
    let descriptions = declared.map_or(&[][..], |plugin| &plugin.descriptions);
    let description = descriptions.iter().find(|(name, _)| name.as_str() == own.name);
    ToolDef { description: description.map_or(&own.description, |(_, text)| text).clone(), ..own.clone() }
}
