//! Every source of tools, in the order in which models see them. The one file that knows them all.

use std::sync::Arc;

use super::agents::{self, Agents};
use super::assembly::Assembly;
use super::loaded::Loaded;
use super::options::Options;
use super::packages::{self, Installed};
use super::pending_plugin::{self, PendingPlugin};
use super::rights::Rights;
use super::server_set::Servers;
use super::{Dirs, backend, children, plugins, required_tools, servers, worker_servers};
use haft_manifest::Secrets;
use haft_plugin_host::Engine;
use haft_sandbox::Backend;

/// What runs besides the tools, and has to be closed.
pub(super) struct Started {
    pub(super) agents: Agents,
    pub(super) backend: Option<Arc<dyn Backend>>,
    pub(super) servers: Servers,
}

/// Adds every source of tools, in the order in which models see them.
pub(super) async fn fill<'a>(
    assembly: &mut Assembly<'a>,
    options: &Options,
    loaded: &'a Loaded,
    installed: &'a [Installed<'a>],
    rights: Rights,
) -> anyhow::Result<Started> {
    let Rights { grant, files, plugins, packages, confiner, engine, problems } = rights;
    let (dirs, secrets, only) = (&loaded.dirs, loaded.secrets(), options.only.as_deref());
    assembly.problems.extend(problems);
    let backend = backend::connect(assembly, options, dirs, &confiner, &grant).await?;
    let mut pending = plugins::declared_plugins(assembly, dirs, (&grant, &files), plugins, &loaded.pinned());
    pending.extend(packages::plugins(assembly, installed, dirs, packages)?);
    let (now, later) = pending_plugin::split(pending, only);
    plugins::load(assembly, &engine, now, (dirs, secrets)).await?;
    children::add_commands(assembly, &confiner, &grant)?;
    packages::add_commands(assembly, installed, &confiner, &grant)?;
    let mut declared = servers::declared(&loaded.manifest, &grant);
    declared.retain(|declared| assembly.placement.runs(&declared.server.on));
    if !assembly.placement.is_worker() {
        declared.extend(servers::of_packages(installed, &grant)?);
    }
    let servers = servers::start(assembly, declared, options, dirs, &confiner).await?;
    worker_servers::add(assembly, options).await?;
    let agents = agents::add(assembly, options, loaded, &files)?;
    rest(assembly, only, later, &engine, (dirs, secrets)).await?;
    Ok(Started { agents, backend, servers })
}

/// Loads `later` where the tool `only` has not been found yet; otherwise checks names that need all tools.
async fn rest<'a>(
    assembly: &mut Assembly<'a>,
    only: Option<&str>,
    later: Vec<PendingPlugin<'a>>,
    engine: &Engine,
    with: (&Dirs, Secrets<'_>),
) -> anyhow::Result<()> {
    match only {
        // Not found: all plugins are loaded, so that the error can suggest the nearest name.
        Some(only) if assembly.toolbox.find(only).is_none() => {
            plugins::load(assembly, engine, later, with).await?;
        }
        // A worker has some of the tools, and no agent.
        Some(_) => {}
        None if assembly.placement.is_worker() => {}
        None => {
            required_tools::check(assembly);
            packages::check_patterns(assembly);
        }
    }
    Ok(())
}
