//! Plugins of a program: those that come with haft and those that program.toml declares, all
//! looked at at once. One that cannot be loaded does not keep the others from it.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::task::JoinSet;

use super::assembly::Assembly;
use super::pending_plugin::{PendingPlugin, described};
use super::pins::{Pinned, agreed, not_installed};
use super::{Dirs, approvals, builtins, hooks, injections, kept, machines, patterns};
use haft_core::grant::Grant;
use haft_core::report::Problem;
use haft_core::tool::{SubjectArgument, Tool, exposed_name};
use haft_manifest::Secrets;
use haft_manifest::{Component, Located, Manifest, Plugin as Declared, ToolPattern};
use haft_package::Kind;
use haft_plugin_host::{Engine, GrantPlace, LoadError, Plugin, PluginOffer, PluginTool, Source, Uncallable};

/// The plugins that come with haft and those that the program declares, where they are enabled, with
/// what each may do: `grants` are those of the declared ones.
pub(super) fn declared_plugins<'m>(
    assembly: &mut Assembly<'m>,
    dirs: &Dirs,
    (sandbox, files): (&Grant, &Grant),
    grants: Vec<Grant>,
    pinned: &Pinned<'_>,
) -> Vec<PendingPlugin<'m>> {
    let mut pending: Vec<PendingPlugin<'m>> = builtins::enabled(assembly, sandbox, files);
    for (plugin, grant) in assembly.manifest.plugins.iter().zip(grants).filter(|(plugin, _)| plugin.enabled) {
        // A hook sees the calls of any machine that it is declared on.
        if plugin.hooks.is_none() && !assembly.placement.loads(&plugin.on) {
            elsewhere(assembly, plugin);
            continue;
        }
        match declared(assembly.manifest, dirs, plugin, grant, pinned) {
            Ok(plugin) => pending.push(plugin),
            Err(problem) => {
                hooks::absent(assembly, plugin, problem.message());
                assembly.problems.push(problem);
            }
        }
    }
    pending
}

/// Notes that a plugin lives where this process cannot get at it, unless nobody wants it here.
fn elsewhere(assembly: &mut Assembly<'_>, plugin: &Declared) {
    if !assembly.placement.is_worker() {
        let name = plugin.name.as_str();
        let why = format!("plugin `{name}` is not here: {}", machines::elsewhere(&plugin.on));
        assembly.unseen.note(patterns::plugin_prefix(name), why);
    }
}

/// Loads plugins and puts their tools in.
pub(super) async fn load<'m>(
    assembly: &mut Assembly<'m>,
    engine: &Engine,
    pending: Vec<PendingPlugin<'m>>,
    (dirs, secrets): (&Dirs, Secrets<'_>),
) -> anyhow::Result<()> {
    assembly.files.extend(pending.iter().filter_map(|pending| pending.source.path().map(Path::to_owned)));
    let loaded =
        if assembly.known_only { known(engine, &pending).await } else { load_all(engine, &pending).await };
    for (pending, loaded) in pending.iter().zip(loaded) {
        match loaded.transpose() {
            None => {
                assembly.is_complete = false;
                assembly
                    .unseen
                    .note(pending.prefix(), format!("plugin `{}` was not looked at yet", pending.name));
            }
            Some(Ok(mut plugin)) => {
                if let Some(declared) = pending.declared {
                    let own = pending.secrets();
                    let injections = injections::for_plugin(own, secrets, &mut assembly.problems).await;
                    plugin = plugin.with_injections(injections);
                    if let Some(storage) = kept::storage(assembly.manifest, dirs, pending) {
                        plugin = plugin.with_storage(storage);
                    }
                    if let Some(config) =
                        kept::config(pending, &plugin, secrets, &mut assembly.problems).await
                    {
                        plugin = plugin.with_config(config);
                    }
                    // What a package asks for here is not its own to decide: the program opts in.
                    if let Some(reuse) = declared.reuse.filter(|_| pending.package.is_none()) {
                        plugin = plugin.with_reuse(reuse);
                    }
                }
                let named = |one: &Uncallable| format!("`{}` of `{}` {}", one.name, pending.name, one.reason);
                assembly.uncallable.extend(plugin.uncallable().iter().map(named));
                if !hooks::take(assembly, pending, &plugin) {
                    add_tools(assembly, pending, &plugin)?;
                }
            }
            Some(Err(error)) => {
                if let Some(declared) = pending.declared.filter(|_| pending.package.is_none()) {
                    hooks::absent(assembly, declared, &format!("it cannot be loaded: {error}"));
                }
                assembly.unseen.note(pending.prefix(), format!("plugin `{}` cannot be loaded", pending.name));
                let is_built_here = assembly.manifest.build.is_some();
                assembly.problems.push(unloadable(pending, &error, is_built_here));
            }
        }
    }
    Ok(())
}

/// The line that has a person asked before the tool `own` of a plugin runs. Where a pattern names no tool of the plugin, every
/// tool of it asks, since any of them may be meant.
fn approval(
    assembly: &Assembly<'_>,
    pending: &PendingPlugin<'_>,
    plugin: &Plugin,
    own: &str,
) -> Option<String> {
    let patterns = pending.declared.map_or(&[][..], |plugin| &plugin.confirm);
    let is_misspelt = |pattern: &ToolPattern| !plugin.own_names().iter().any(|name| pattern.matches(name));
    if patterns.iter().any(|pattern| pattern.matches(own) || is_misspelt(pattern)) {
        return Some(approvals::for_plugin(&pending.name, own));
    }
    let asks = pending.place == GrantPlace::FetchAllow && assembly.manifest.builtins.fetch_confirm;
    asks.then(approvals::for_fetch)
}

/// Notes what program.toml says of tools that the plugin does not have. What a package's own says is for its
/// author to put right.
fn check_names(assembly: &mut Assembly<'_>, pending: &PendingPlugin<'_>, plugin: &Plugin) {
    let Some(declared) = pending.declared.filter(|_| pending.package.is_none()) else { return };
    let uncallable = plugin.uncallable().iter().map(|one| one.name.as_str());
    let all = plugin.own_names();
    let names: Vec<&str> = all.iter().map(String::as_str).chain(uncallable).collect();
    let (owner, span) = (format!("plugin `{}`", pending.name), declared.name.span);
    let mut of = |key, patterns: &[ToolPattern]| {
        assembly.problems.extend(patterns::problems(&owner, (key, span), &names, patterns));
    };
    of("tools", declared.tools.as_deref().unwrap_or_default());
    of("confirm", &declared.confirm);
    for (key, patterns) in declared.hints.patterns() {
        of(key, patterns);
    }
    for (key, texts) in [("descriptions", &declared.descriptions), ("titles", &declared.titles)] {
        for (name, _) in texts {
            let own: Vec<ToolPattern> = name.as_str().parse().into_iter().collect();
            assembly.problems.extend(patterns::problems(&owner, (key, name.span), &names, &own));
        }
    }
}

fn add_tools(
    assembly: &mut Assembly<'_>,
    pending: &PendingPlugin<'_>,
    plugin: &Plugin,
) -> anyhow::Result<()> {
    let origin = match (pending.package, pending.declared) {
        (Some(package), _) => format!("plugin `{}` of {}", pending.name, assembly.origin_of(package)),
        (None, Some(plugin)) => {
            format!("plugin `{}` at {}", pending.name, assembly.manifest.source.place(plugin.name.span))
        }
        (None, None) => "built in".to_owned(),
    };
    check_names(assembly, pending, plugin);
    for own in plugin.tools() {
        let exposed = match pending.declared {
            None => own.name.clone(),
            Some(_) => exposed_name(&[&pending.name, &own.name]),
        };
        if !pending.offers(&own.name, &exposed) {
            continue;
        }
        if !pending.is_agreed_to(own) {
            assembly.problems.push(not_agreed_to(pending, &exposed));
            continue;
        }
        let described = described(pending.declared, own);
        let tool = PluginTool::new(plugin, &described, exposed, pending.place.clone()).about(pending.about);
        let (grant, approval) = (pending.grant.clone(), approval(assembly, pending, plugin, &own.name));
        let tool = (Arc::new(tool) as _, &grant);
        let inserted = assembly.insert_on(pending.on, tool, pending.limits, origin.clone(), approval);
        match (inserted, pending.package) {
            // A package's choice of names does not keep the rest from working.
            (Err(error), Some(package)) => assembly.left_out(package, error.to_string()),
            (inserted, _) => inserted?,
        }
    }
    add_offers(assembly, pending, plugin, &origin);
    Ok(())
}

/// Puts the plugin's prompts and resources in. They have its grant and limits, and its say is that of tools.
fn add_offers(assembly: &mut Assembly<'_>, pending: &PendingPlugin<'_>, plugin: &Plugin, origin: &str) {
    for offer in PluginOffer::all(plugin, &pending.name, &pending.place) {
        let (own, exposed) = (offer.own().clone(), offer.def().name.clone());
        if !pending.offers(&own.name, &exposed) {
            continue;
        }
        if !pending.is_agreed_to(&own) {
            assembly.problems.push(not_agreed_to(pending, &exposed));
            continue;
        }
        let approval = approval(assembly, pending, plugin, &own.name);
        let offer = (Arc::new(offer) as _, &pending.grant);
        let inserted = assembly.insert_offer(pending.on, offer, pending.limits, origin.to_owned(), approval);
        // Of two plugins of one name, which tools are refused for, the first counts.
        if let Err(error) = inserted {
            assembly.problems.push(Problem::new(error.to_string()));
        }
    }
}

fn declared<'a>(
    manifest: &Manifest,
    dirs: &Dirs,
    plugin: &'a Declared,
    grant: Grant,
    pinned: &Pinned<'_>,
) -> Result<PendingPlugin<'a>, Problem> {
    let (name, component) = (plugin.name.as_str(), &plugin.component);
    let source = Located { value: component.value.source(), span: component.span };
    let pin = pinned.find(Kind::Plugin, name, &source)?;
    let source = match (&component.value, pin) {
        (Component::File(path), None) => Source::File(manifest.resolve(path, &dirs.home)),
        (Component::File(path), Some(pin)) => {
            Source::Pinned(manifest.resolve(path, &dirs.home), pin.kept.hex().to_owned())
        }
        (_, Some(pin)) if pinned.store.has(&pin.kept) => {
            Source::Pinned(pinned.store.component(&pin.kept), pin.kept.hex().to_owned())
        }
        _ => return Err(not_installed(name, component.span)),
    };
    Ok(PendingPlugin {
        name: name.to_owned(),
        source,
        grant,
        place: GrantPlace::Plugin,
        limits: plugin.limits,
        about: SubjectArgument::All,
        declared: Some(plugin),
        package: None,
        agreed: pin.and_then(agreed),
        on: &plugin.on,
    })
}

/// Loads all: those that are known already one after the other, which takes less time than to hand
/// them out, the others at once, so that a first start uses every processor.
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

/// Those that have been seen before, and hooks: no call goes by one that has yet to be looked at.
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

/// A plugin; nothing where it would have to be looked at first.
type Loaded = Result<Option<Plugin>, LoadError>;

fn unloadable(pending: &PendingPlugin<'_>, error: &LoadError, is_built_here: bool) -> Problem {
    let problem = Problem::new(format!("plugin `{}` cannot be loaded: {error}", pending.name));
    let problem = match pending.span() {
        Some(span) => problem.at(span, "this component"),
        None => problem,
    };
    match (error, pending.package) {
        (LoadError::Pinned, None) if pending.is_own_file() => {
            problem.hint(format!("`haft update {}` shows what it is now and asks again", pending.name))
        }
        (LoadError::Pinned, _) => {
            problem.hint("`haft add` fetches it again; `haft verify` checks everything")
        }
        (LoadError::Read { error, .. }, None) if is_built_here && error.kind() == ErrorKind::NotFound => {
            problem.hint("`haft build` makes it")
        }
        _ => problem,
    }
}

/// The problem for a tool that is not what the user agreed to.
fn not_agreed_to(pending: &PendingPlugin<'_>, exposed: &str) -> Problem {
    let (name, span) = match (pending.package, pending.span()) {
        (Some(package), _) => (package.name.as_str(), Some(package.name.span)),
        (None, span) => (pending.name.as_str(), span),
    };
    let problem = Problem::new(format!("the tool `{exposed}` says something else than what was agreed to"));
    let problem = problem.hint(format!("`haft update {name}` shows what it says now and asks again"));
    span.into_iter().fold(problem, |problem, span| problem.at(span, "left out"))
}
