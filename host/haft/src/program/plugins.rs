//! Plugins as a source of tools: the built-in ones, those of program.toml and those of packages, discovered
//! concurrently. A plugin that cannot be loaded does not affect the others.

mod builtins;
mod equipment;
mod hooks;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::task::JoinSet;

pub use self::builtins::{builtin, builtin_names};
use self::equipment::equipped;
pub use self::hooks::ProgramHook;
use super::contribution::{Contribution, NewTool};
use super::loaded::{Agreed, agreed, not_installed};
use super::packages::{self, Installed};
use super::rights::Rights;
use super::{machines, patterns, under};
use haft_core::call::ToolDef;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::report::{Problem, Span};
use haft_core::tool::{SubjectArgument, Tool, exposed_name};
use haft_manifest::{
    Component, Label, Located, Package, Plugin as Declared, PluginSecret, ToolName, ToolPattern,
};
use haft_package::disclosure::Disclosure;
use haft_package::{Digest, Kind};
use haft_plugin_host::{Engine, GrantPlace, LoadError, Plugin, PluginOffer, PluginTool, Source, Uncallable};

/// One plugin before its tools are in the toolbox.
pub(super) struct PendingPlugin<'a> {
    pub(super) name: String,
    pub(super) source: Source,
    pub(super) grant: Grant,
    /// The place in program.toml for further rights.
    pub(super) place: GrantPlace,
    pub(super) limits: Limits,
    /// The argument that is the subject of the plugin's calls.
    pub(super) about: SubjectArgument,
    /// The plugin's entry in program.toml; `None` for a built-in plugin.
    pub(super) declared: Option<&'a Declared>,
    /// The plugin's package. `declared` is then in the package's program.toml, and this entry overrides it.
    pub(super) package: Option<&'a Package>,
    /// The agreed definitions, if the plugin is installed.
    pub(super) agreed: Option<Agreed>,
    /// Labels of the workers that run the plugin; empty for this process.
    pub(super) on: &'a [Label],
}

impl PendingPlugin<'_> {
    /// Returns the headers that the program gives to the plugin: for a package, those with requested names.
    pub(super) fn secrets(&self) -> Vec<&PluginSecret> {
        let Some(declared) = self.declared else { return Vec::new() };
        let Some(package) = self.package else { return declared.secrets.iter().collect() };
        let is_asked =
            |secret: &&PluginSecret| declared.secrets.iter().any(|asked| asked.name == secret.name);
        package.secrets.iter().filter(is_asked).collect()
    }

    /// Returns whether the program offers the plugin's tool `own` under the name `exposed`.
    pub(super) fn offers(&self, own: &str, exposed: &str) -> bool {
        let own_patterns = self.declared.and_then(|plugin| plugin.tools.as_deref());
        let of_package = self.package.and_then(|package| package.tools.as_deref());
        patterns::select(own_patterns, own) && patterns::select(of_package, exposed)
    }

    /// Returns whether the tool is the agreed one. A component lists its tools by running, and may list other tools
    /// later.
    pub(super) fn is_agreed_to(&self, own: &ToolDef) -> bool {
        let Some(agreed) = &self.agreed else { return true };
        // Overrides of the program itself need no agreement.
        let def = described(self.declared.filter(|_| self.package.is_some()), own);
        let name = PluginOffer::exposed_name(&self.name, &own.name);
        agreed.get(&name) == Some(&Disclosure::definition_digest(ToolDef { name: name.clone(), ..def }))
    }

    /// Returns the prefix of the names of the plugin's tools.
    pub(super) fn prefix(&self) -> String {
        self.declared.map_or_else(String::new, |_| patterns::plugin_prefix(&self.name))
    }

    /// Returns the plugin's place in program.toml.
    pub(super) fn span(&self) -> Option<Span> {
        let own = self.declared.map(|plugin| plugin.component.span);
        self.package.map(|package| package.name.span).or(own)
    }

    /// Returns `problem` at the plugin's place in program.toml.
    fn at(&self, problem: Problem, label: &str) -> Problem {
        self.span().into_iter().fold(problem, |problem, span| problem.at(span, label))
    }
}

/// Returns the enabled plugins of haft, of the program and of its packages, with their rights, and the problems of
/// unavailable plugins.
pub(super) fn pending<'a>(rights: &Rights<'a>) -> (Vec<PendingPlugin<'a>>, Contribution) {
    let (mut pending, mut others) = (builtins::enabled(rights), Contribution::default());
    let declared = rights.manifest.plugins.iter().zip(&rights.plugins);
    for (plugin, grant) in declared.filter(|(plugin, _)| plugin.enabled) {
        // A hook sees the calls on any machine that declares it.
        if plugin.hooks.is_none() && !rights.placement.loads(&plugin.on) {
            let why = format!(
                "plugin `{}` is not available: {}",
                plugin.name.as_str(),
                machines::elsewhere(&plugin.on)
            );
            // A worker gets no calls of entries for other workers.
            if !rights.placement.is_worker() {
                others.unseen.note(patterns::plugin_prefix(plugin.name.as_str()), why);
            }
            continue;
        }
        match of_program(rights, plugin, grant) {
            Ok(plugin) => pending.push(plugin),
            Err(problem) => {
                others.hooks.extend(hooks::absent(plugin, problem.message()));
                others.problems.push(problem);
            }
        }
    }
    let packages = rights.installed.iter().zip(&rights.packages);
    pending.extend(packages.flat_map(|(package, grants)| of_package(package, grants)));
    (pending, others)
}

fn of_program<'a>(
    rights: &Rights<'a>,
    plugin: &'a Declared,
    grant: &Grant,
) -> Result<PendingPlugin<'a>, Problem> {
    let Rights { manifest, dirs, loaded, .. } = rights;
    let (name, component) = (plugin.name.as_str(), &plugin.component);
    let source = Located { value: component.value.source(), span: component.span };
    let pin = loaded.pin(Kind::Plugin, name, &source, plugin.signer.as_ref())?;
    let source = match (&component.value, pin) {
        (Component::File(path), None) => Source::File(manifest.resolve(path, &dirs.home)),
        (Component::File(path), Some(pin)) => {
            Source::Pinned(manifest.resolve(path, &dirs.home), pin.kept.hex().to_owned())
        }
        (_, Some(pin)) if loaded.store.has(&pin.kept) => {
            Source::Pinned(loaded.store.component(&pin.kept), pin.kept.hex().to_owned())
        }
        _ => return Err(not_installed(name, component.span)),
    };
    Ok(PendingPlugin {
        name: name.to_owned(),
        source,
        grant: grant.clone(),
        place: GrantPlace::Plugin,
        limits: plugin.limits,
        about: SubjectArgument::All,
        declared: Some(plugin),
        package: None,
        agreed: pin.and_then(agreed),
        on: &plugin.on,
    })
}

fn of_package<'a>(package: &'a Installed<'a>, grants: &[Grant]) -> Vec<PendingPlugin<'a>> {
    let Installed { declared, bundle, agreed } = package;
    let pending = |((plugin, file, digest), grant): ((&'a Declared, _, Digest), &Grant)| PendingPlugin {
        name: plugin.name.as_str().to_owned(),
        source: Source::Pinned(file, digest.hex().to_owned()),
        grant: grant.clone(),
        place: GrantPlace::Package(declared.name.as_str().to_owned()),
        limits: plugin.limits,
        about: SubjectArgument::All,
        declared: Some(plugin),
        package: Some(declared),
        agreed: agreed.clone(),
        on: &[],
    };
    bundle.components().zip(grants).map(pending).collect()
}

pub(super) async fn contribution(rights: &Rights<'_>, pending: &[PendingPlugin<'_>]) -> Contribution {
    let engine = &rights.engine;
    let loaded = if rights.options.known_only {
        known(engine, pending).await
    } else {
        load_all(engine, pending).await
    };
    let files = pending.iter().filter_map(|pending| pending.source.path().map(Path::to_owned)).collect();
    let mut found = Contribution { files, ..Contribution::default() };
    for (pending, loaded) in pending.iter().zip(loaded) {
        let unseen = |why: &str| (pending.prefix(), format!("plugin `{}` {why}", pending.name));
        match loaded.transpose() {
            None => {
                found.is_partial = true;
                found.unseen.extend([unseen("has not been loaded yet")]);
            }
            Some(Ok(plugin)) => {
                let (plugin, problems) = equipped(rights, pending, plugin).await;
                found.problems.extend(problems);
                found.append(of_loaded(rights, pending, &plugin));
            }
            Some(Err(error)) => {
                if let Some(declared) = pending.declared.filter(|_| pending.package.is_none()) {
                    found.hooks.extend(hooks::absent(declared, &format!("it cannot be loaded: {error}")));
                }
                found.unseen.extend([unseen("cannot be loaded")]);
                found.problems.push(unloadable(pending, &error, rights.manifest.build.is_some()));
            }
        }
    }
    found
}

fn of_loaded(rights: &Rights<'_>, pending: &PendingPlugin<'_>, plugin: &Plugin) -> Contribution {
    let hook = hooks::contribution(pending, plugin);
    let mut found = hook.unwrap_or_else(|| of_functions(rights, pending, plugin));
    let named = |one: &Uncallable| format!("`{}` of `{}` {}", one.name, pending.name, one.reason);
    found.uncallable.extend(plugin.uncallable().iter().map(named));
    found
}

/// Returns the tools, prompts and resources of a plugin, with its grant and limits, and with the settings for its
/// tools.
fn of_functions(rights: &Rights<'_>, pending: &PendingPlugin<'_>, plugin: &Plugin) -> Contribution {
    let place = |span| rights.manifest.source.place(span);
    let origin = match (pending.package, pending.declared) {
        (Some(package), _) => {
            format!("plugin `{}` of {}", pending.name, packages::origin(rights.manifest, package))
        }
        (None, Some(plugin)) => format!("plugin `{}` at {}", pending.name, place(plugin.name.span)),
        (None, None) => "built in".to_owned(),
    };
    let new = |tool: Arc<dyn Tool>, own: &ToolDef| NewTool {
        on: pending.on.to_vec(),
        asking: approval(rights, pending, plugin, &own.name),
        package: pending.package.map(|package| package.name.span),
        ..NewTool::new(tool, pending.grant.clone(), pending.limits, origin.clone())
    };
    let mut found = Contribution { problems: misnamed(pending, plugin), ..Contribution::default() };
    for own in plugin.tools() {
        let exposed = match pending.declared {
            None => own.name.clone(),
            Some(_) => exposed_name(&[&pending.name, &own.name]),
        };
        if is_had(pending, own, &exposed, &mut found.problems) {
            let described = described(pending.declared, own);
            let tool = PluginTool::new(plugin, &described, exposed, pending.place.clone());
            found.tools.push(new(Arc::new(tool.about(pending.about)), own));
        }
    }
    for offer in PluginOffer::all(plugin, &pending.name, &pending.place) {
        let (own, exposed) = (offer.own().clone(), offer.def().name.clone());
        if is_had(pending, &own, &exposed, &mut found.problems) {
            found.offers.push(new(Arc::new(offer), &own));
        }
    }
    found
}

/// Returns whether a plugin's function is offered, and is the agreed one.
fn is_had(pending: &PendingPlugin<'_>, own: &ToolDef, exposed: &str, problems: &mut Vec<Problem>) -> bool {
    if !pending.offers(&own.name, exposed) {
        return false;
    }
    let is_agreed_to = pending.is_agreed_to(own);
    problems.extend((!is_agreed_to).then(|| not_agreed_to(pending, exposed)));
    is_agreed_to
}

/// Returns the line that demands the user's approval before the tool `own` of a plugin runs. If a pattern matches
/// no tool of the plugin, every tool needs approval, because any of them may be meant.
fn approval(rights: &Rights<'_>, pending: &PendingPlugin<'_>, plugin: &Plugin, own: &str) -> Option<String> {
    let patterns = pending.declared.map_or(&[][..], |plugin| &plugin.confirm);
    let is_misspelt = |pattern: &ToolPattern| !plugin.own_names().iter().any(|name| pattern.matches(name));
    if patterns.iter().any(|pattern| pattern.matches(own) || is_misspelt(pattern)) {
        return Some(format!("the pattern for `{own}` in `confirm` of plugin `{}`", pending.name));
    }
    let asks = pending.place == GrantPlace::FetchAllow && rights.manifest.builtins.fetch_confirm;
    asks.then(|| under::FETCH_CONFIRM.to_owned())
}

/// Returns the problems of settings for tools that the plugin does not have. Only a package's author can correct
/// those of a package.
fn misnamed(pending: &PendingPlugin<'_>, plugin: &Plugin) -> Vec<Problem> {
    let Some(declared) = pending.declared.filter(|_| pending.package.is_none()) else { return Vec::new() };
    let uncallable = plugin.uncallable().iter().map(|one| one.name.as_str());
    let all = plugin.own_names();
    let names: Vec<&str> = all.iter().map(String::as_str).chain(uncallable).collect();
    let (owner, span) = (format!("plugin `{}`", pending.name), declared.name.span);
    let mut problems = Vec::new();
    let mut of = |key, span, patterns: &[ToolPattern]| {
        problems.extend(patterns::problems(&owner, (key, span), &names, patterns));
    };
    of("tools", span, declared.tools.as_deref().unwrap_or_default());
    of("confirm", span, &declared.confirm);
    for (key, patterns) in declared.hints.patterns() {
        of(key, span, patterns);
    }
    for (key, texts) in [("descriptions", &declared.descriptions), ("titles", &declared.titles)] {
        for (name, _) in texts {
            let own: Vec<ToolPattern> = name.as_str().parse().into_iter().collect();
            of(key, name.span, &own);
        }
    }
    problems
}

/// Loads all plugins: known plugins one after the other, which takes less time than a task for each, and the others
/// concurrently, so that a first start uses every processor.
async fn load_all(engine: &Engine, pending: &[PendingPlugin<'_>]) -> Vec<Loaded> {
    let mut loaded: Vec<Option<Result<Plugin, LoadError>>> = Vec::with_capacity(pending.len());
    let mut loading = JoinSet::new();
    for (index, pending) in pending.iter().enumerate() {
        let (engine, name) = (engine.clone(), pending.name.clone());
        let (source, limits) = (pending.source.clone(), pending.limits);
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

/// Returns the known plugins, and all hooks, because no call may precede an undiscovered hook.
async fn known(engine: &Engine, pending: &[PendingPlugin<'_>]) -> Vec<Loaded> {
    let mut loaded = Vec::with_capacity(pending.len());
    for pending in pending {
        let (name, source) = (&pending.name, pending.source.clone());
        let is_hook = pending.declared.is_some_and(|declared| declared.hooks.is_some());
        loaded.push(match Plugin::from_cache(engine, name, source.clone()) {
            Ok(None) if is_hook => Plugin::load(engine, name, source, &pending.limits).await.map(Some),
            known => known,
        });
    }
    loaded
}

/// A plugin; `None` if it is undiscovered.
type Loaded = Result<Option<Plugin>, LoadError>;

fn unloadable(pending: &PendingPlugin<'_>, error: &LoadError, is_built_here: bool) -> Problem {
    let problem = Problem::new(format!("plugin `{}` cannot be loaded: {error}", pending.name));
    let problem = pending.at(problem, "this component");
    // Only the author of a file can correct it.
    let is_file = |plugin: &Declared| matches!(plugin.component.value, Component::File(_));
    match (error, pending.package) {
        (LoadError::Pinned, None) if pending.declared.is_some_and(is_file) => {
            problem.hint(format!("`haft update {}` shows the new content and asks", pending.name))
        }
        (LoadError::Pinned, _) => {
            problem.hint("`haft add` fetches it again; `haft verify` checks everything")
        }
        (LoadError::Read { error, .. }, None) if is_built_here && error.kind() == ErrorKind::NotFound => {
            problem.hint("run `haft plugin build`")
        }
        _ => problem,
    }
}

/// Returns the problem for a tool that differs from the agreed one.
fn not_agreed_to(pending: &PendingPlugin<'_>, exposed: &str) -> Problem {
    let name = pending.package.map_or(pending.name.as_str(), |package| package.name.as_str());
    let problem = Problem::new(format!(
        "the definition of the tool `{exposed}` differs from the one that you agreed to"
    ));
    let problem = problem.hint(format!("`haft update {name}` shows the new definition and asks"));
    pending.at(problem, "left out")
}

/// Splits plugins into those that may have a tool called `only`, and the others. Without `only` all plugins may.
pub(super) fn split<'a>(
    pending: Vec<PendingPlugin<'a>>,
    only: Option<&str>,
) -> (Vec<PendingPlugin<'a>>, Vec<PendingPlugin<'a>>) {
    let Some(only) = only else { return (pending, Vec::new()) };
    // An exposed name begins with the plugin's name, even if shortened.
    let plugin = only.split_once("__").map(|(plugin, _)| plugin);
    let may_have = |pending: &PendingPlugin<'_>| match (plugin, pending.declared) {
        // A hook sees the calls of other plugins.
        (_, Some(declared)) if declared.hooks.is_some() => true,
        (Some(plugin), Some(_)) => pending.name.eq_ignore_ascii_case(plugin),
        (None, None) => true,
        _ => false,
    };
    pending.into_iter().partition(may_have)
}

/// Returns the tool with the overrides of program.toml: description, title and hints.
pub fn described(declared: Option<&Declared>, own: &ToolDef) -> ToolDef {
    let Some(declared) = declared else { return own.clone() };
    let said = |texts: &[(Located<ToolName>, String)]| {
        texts.iter().find(|(name, _)| name.as_str() == own.name).map(|(_, text)| text.clone())
    };
    ToolDef {
        description: said(&declared.descriptions).unwrap_or_else(|| own.description.clone()),
        title: said(&declared.titles).or_else(|| own.title.clone()),
        hints: declared.hints.hints(&own.name, own.hints),
        ..own.clone()
    }
}
