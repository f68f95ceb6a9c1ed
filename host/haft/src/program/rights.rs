//! The rights of a program's parts, and all other inputs of a source of tools. Reads the secrets that haft puts into the
//! requests of processes, and adds them to the grants of these. Runs nothing of the program.

use std::path::Path;

use secrecy::ExposeSecret;

use super::Dirs;
use super::grants::{self, Grants, Processes, Sandbox};
use super::loaded::Loaded;
use super::machines::Placement;
use super::options::Options;
use super::packages::Installed;
use super::under::Under;
use haft_core::grant::{Grant, HostSecret, Root};
use haft_core::report::Problem;
use haft_core::trace::Trace;
use haft_manifest::{Manifest, PlaceholderFile, ProcessSecret, SecretError, Secrets};
use haft_plugin_host::{Engine, EngineOptions};
use haft_sandbox::BackendConfig;
use haft_sandbox::confine::{Confiner, Layers};

/// The inputs of every source of tools: the files, the rights of each part, and the confiner. Sources do not
/// change them.
pub(super) struct Rights<'a> {
    pub(super) options: &'a Options,
    pub(super) loaded: &'a Loaded,
    pub(super) manifest: &'a Manifest,
    pub(super) dirs: &'a Dirs,
    pub(super) installed: &'a [Installed<'a>],
    /// The target of commands; `None` for this machine, as `bash` runs commands.
    pub(super) target: Option<BackendConfig>,
    /// The placement of the tools.
    pub(super) placement: Placement,
    /// The rights of `bash`.
    pub(super) grant: Grant,
    /// The rights of the program's MCP servers and commands.
    pub(super) processes: Processes,
    /// The rights of the servers and commands of each installed package, in order.
    pub(super) of_packages: Vec<Processes>,
    /// The rights of the built-in `read`, `write` and `edit`.
    pub(super) files: Grant,
    /// The rights of each entry of `[[plugins]]`, in order.
    pub(super) plugins: Vec<Grant>,
    /// The rights of each component of each installed package, in order.
    pub(super) packages: Vec<Vec<Grant>>,
    pub(super) confiner: Confiner,
    pub(super) engine: Engine,
    /// The paths closed to every tool because of the program's agents.
    sealed: Grant,
}

impl<'a> Rights<'a> {
    /// Resolves the rights of program.toml and the command line. Returns the rights and their problems. Fails if
    /// program.toml or the command line grants an impossible right.
    pub(super) fn resolve(
        options: &'a Options,
        loaded: &'a Loaded,
        installed: &'a [Installed<'a>],
        target: Option<BackendConfig>,
        trace: &Trace,
    ) -> anyhow::Result<(Self, Vec<Problem>)> {
        let Loaded { manifest, dirs, lock, redactor, .. } = loaded;
        grants::unknown_names(manifest, &options.allow, &plugin_names(installed))?;
        let under = options.under.as_ref();
        let mut grants = Grants::new(manifest, dirs, &options.allow)?;
        let Sandbox { tools, files } = grants.sandbox(under.map(|under| &under.most))?;
        let sealed = loaded.family.sealed(&dirs.home)?;
        let (grant, withheld) = bound(under, &sealed, &without_scripts(tools, installed)?, "`[sandbox]`");
        let (files, _) = bound(under, &sealed, &files, "`[sandbox]`");
        [&grant, &files].into_iter().try_for_each(grants::refuse_links)?;
        let plugins = grants.plugins(&grant)?;
        let of_package = |one: &Installed<'_>| grants.package(one.parts(), &grant);
        let packages = installed.iter().map(of_package).collect::<anyhow::Result<Vec<_>>>()?;
        let bound_process = |wanted: &Grant| bound(under, &sealed, wanted, "a process").0;
        let processes = grants.processes(&grant)?.bounded(bound_process)?;
        let of_processes = |one: &Installed<'_>| grants.packaged(one.parts(), &grant)?.bounded(bound_process);
        let of_packages = installed.iter().map(of_processes).collect::<anyhow::Result<Vec<_>>>()?;
        let of_children =
            || processes.iter().chain(of_packages.iter().flat_map(Processes::iter)).map(|one| &one.grant);
        of_children().try_for_each(grants::refuse_links)?;
        let mut problems = grants.problems;
        problems.extend(withheld);
        let confiner = options.confiner.clone().unwrap_or_default();
        let all = [&grant, &files]
            .into_iter()
            .chain(&plugins)
            .chain(packages.iter().flatten())
            .chain(of_children());
        let engine = engine(options, dirs, &confiner, all)?;
        let mut declared = installed.iter().map(|one| &one.bundle.manifest).chain([manifest]);
        if manifest.builtins.shell || declared.any(Manifest::has_commands) {
            problems.extend(children(&confiner, &grant, options.many_calls));
        }
        let (placement, unmet) = options.machines.placement((manifest, lock), (&dirs.home, redactor), trace);
        problems.extend(unmet);
        let rights = Self {
            options,
            loaded,
            manifest,
            dirs,
            installed,
            target,
            placement,
            grant,
            processes,
            of_packages,
            files,
            plugins,
            packages,
            confiner,
            engine,
            sealed,
        };
        Ok((rights, problems))
    }

    /// Returns the remaining grant of a tool from `origin`, and a problem if rights were removed.
    pub(super) fn bound(&self, wanted: &Grant, origin: &str) -> (Grant, Option<Problem>) {
        bound(self.options.under.as_ref(), &self.sealed, wanted, origin)
    }
}

/// Returns the names of the enabled plugins of packages.
fn plugin_names<'a>(installed: &'a [Installed<'_>]) -> Vec<&'a str> {
    let plugins = installed.iter().flat_map(|one| &one.bundle.manifest.plugins);
    plugins.filter(|plugin| plugin.enabled).map(|plugin| plugin.name.as_str()).collect()
}

/// Returns `grant` of `bash` without the scripts of installed plugins, which run with their own rights.
fn without_scripts(grant: Grant, installed: &[Installed<'_>]) -> anyhow::Result<Grant> {
    let bundles = installed.iter().map(|one| &one.bundle);
    let mut with_scripts =
        bundles.filter(|bundle| bundle.agent_plugin.is_some() && !bundle.manifest.tools.is_empty());
    with_scripts.try_fold(grant, |grant, bundle| Ok(grant.with_hidden(grants::root(&bundle.folder)?)))
}

/// Returns the remainder of the grant `wanted` of an entry from `origin`, if the program is an agent of another
/// program.
fn bound(under: Option<&Under>, sealed: &Grant, wanted: &Grant, origin: &str) -> (Grant, Option<Problem>) {
    let Some(under) = under else { return (wanted.clone().with_protected_paths_of(sealed), None) };
    let withheld = under.withheld(wanted);
    let problem = || {
        let text = format!("tools of this agent ({origin}) may not {}", withheld.join(", "));
        Problem::new(text).warning().hint("an agent has at most the rights of the program that calls it")
    };
    let problem = (!withheld.is_empty()).then(problem);
    (under.narrowed(wanted).with_protected_paths_of(sealed), problem)
}

/// Prepares for many children if `many_calls`. Returns a problem if no child can be confined.
fn children(confiner: &Confiner, grant: &Grant, many_calls: bool) -> Option<Problem> {
    let refusal = confiner.refusal(grant);
    if refusal.is_none() && many_calls {
        confiner.keep_ready(grant);
    }
    refusal.map(|error| Problem::new(format!("`bash` and commands are {error}")))
}

/// Returns the engine of plugins with the grants `grants`.
pub(super) fn engine<'g>(
    options: &Options,
    dirs: &Dirs,
    confiner: &Confiner,
    grants: impl Iterator<Item = &'g Grant>,
) -> anyhow::Result<Engine> {
    let cache = Root::resolve(Path::new("/"), &dirs.cache)?;
    // Without a layer of confinement, processes can write the cache even if their grants hide it.
    let is_open = confiner.layers() == Layers::NONE;
    let exposed = grants.filter(|grant| is_open || !grant.hides(&cache));
    Ok(Engine::new(&EngineOptions {
        cache: Some(dirs.cache.join("components")),
        writable: exposed.map(|grant| grant.writable().clone()).collect(),
        pooling: options.many_calls,
        prewarm: options.many_calls,
        events: options.events.clone(),
        recorder: options.recorder.clone(),
        tiered: true,
    }))
}

/// Returns the rights with the secrets, and the problems with those of secrets. A process works without the placeholder
/// of a value that is not available.
pub(super) async fn with_secrets(
    mut rights: Rights<'_>,
    mut problems: Vec<Problem>,
) -> (Rights<'_>, Vec<Problem>) {
    let (manifest, secrets) = (rights.manifest, rights.loaded.secrets());
    let bash = (&manifest.sandbox.secrets, &mut rights.grant);
    let processes = &mut rights.processes;
    let servers = manifest.mcp_servers.iter().zip(&mut processes.servers);
    let servers = servers.filter(|(server, _)| server.enabled);
    let servers = servers.map(|(server, own)| (&server.secrets, &mut own.grant));
    let commands = manifest.tools.iter().zip(&mut processes.commands);
    let commands = commands.map(|(tool, own)| (&tool.secrets, &mut own.grant));
    for (declared, grant) in std::iter::once(bash).chain(servers).chain(commands) {
        for secret in declared {
            match read(secret, secrets).await {
                Ok(secret) => *grant = grant.clone().with_secret(secret),
                Err(problem) => problems.push(problem),
            }
        }
    }
    (rights, problems)
}

async fn read(declared: &ProcessSecret, secrets: Secrets<'_>) -> Result<HostSecret, Problem> {
    let name = &declared.name.value;
    let unavailable =
        |error: SecretError| error.problem(&format!("secret `{name}`")).at(declared.name.span, "this secret");
    let value = secrets.read(&declared.source).await.map_err(unavailable)?;
    let access_key = match &declared.access_key_id {
        Some(id) => Some(secrets.value(id).await.map_err(unavailable)?.expose_secret().to_owned()),
        None => None,
    };
    let file = |file: &PlaceholderFile| (file.variable.as_str().to_owned(), file.text.clone());
    Ok(HostSecret {
        name: name.clone(),
        hosts: declared.hosts.clone(),
        allow: declared.allow.clone(),
        variable: declared.variable.as_ref().map(|variable| variable.as_str().to_owned()),
        access_key,
        file: declared.placeholder_file.as_ref().map(file),
        value,
    })
}
