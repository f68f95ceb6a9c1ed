//! What the parts of a program may do. Runs nothing of the program.

use std::path::Path;

use super::Dirs;
use super::assembly::withheld_from;
use super::grants::{self, Sandbox};
use super::loaded::Loaded;
use super::options::Options;
use super::packages::{self, Installed};
use super::under::Under;
use haft_core::grant::{Grant, Root};
use haft_core::report::Problem;
use haft_manifest::Prewarm;
use haft_plugin_host::{Engine, EngineOptions};
use haft_sandbox::confine::{Confiner, Layers};

/// What the parts of a program may do, and what holds them to it. Runs nothing of the program.
pub(super) struct Rights {
    /// Of `bash`, commands and MCP servers.
    pub(super) grant: Grant,
    /// Of the built-in `read`, `write` and `edit`.
    pub(super) files: Grant,
    /// Of each entry of `[[plugins]]`, in order.
    pub(super) plugins: Vec<Grant>,
    /// Of each component of each installed package, in order.
    pub(super) packages: Vec<Vec<Grant>>,
    pub(super) confiner: Confiner,
    pub(super) engine: Engine,
    /// What was found wrong until here.
    pub(super) problems: Vec<Problem>,
}

impl Rights {
    /// The rights that program.toml and the command line give. Fails where either grants what cannot be
    /// granted; adds to `problems` what only concerns a part.
    pub(super) fn resolve(
        options: &Options,
        loaded: &Loaded,
        installed: &[Installed<'_>],
        mut problems: Vec<Problem>,
    ) -> anyhow::Result<Self> {
        let Loaded { manifest, dirs, .. } = loaded;
        let names: Vec<_> = installed.iter().flat_map(Installed::plugins).collect();
        grants::unknown_plugins(manifest, &options.allow, &names)?;
        let caller = options.under.as_ref().map(Under::most);
        let Sandbox { tools: grant, files } =
            grants::sandbox(manifest, dirs, (&options.allow, caller), &mut problems)?;
        let sealed = loaded.family.sealed(&dirs.home)?;
        let grant = bound(grant, options, &mut problems).with_protected_paths_of(&sealed);
        let files = bound(files, options, &mut Vec::new()).with_protected_paths_of(&sealed);
        grants::refuse_links(&grant)?;
        grants::refuse_links(&files)?;
        let plugins = grants::plugins(manifest, dirs, &options.allow, &grant, &mut problems)?;
        let confiner = options.confiner.clone().unwrap_or_default();
        let of_program = (&grant, options.allow.as_slice());
        let packages = packages::granted(manifest, dirs, of_program, installed, &mut problems)?;
        let all = [&grant, &files].into_iter().chain(&plugins).chain(packages.iter().flatten());
        let engine = engine((options, manifest.prewarm), dirs, &confiner, all)?;
        if manifest.has_children() || installed.iter().any(Installed::has_commands) {
            problems.extend(children(&confiner, &grant, options.many_calls));
        }
        Ok(Self { grant, files, plugins, packages, confiner, engine, problems })
    }
}

/// What is left of what `[sandbox]` allows, where the program works as an agent of another.
fn bound(grant: Grant, options: &Options, problems: &mut Vec<Problem>) -> Grant {
    let Some(under) = &options.under else { return grant };
    let withheld = under.withheld(&grant);
    problems.extend((!withheld.is_empty()).then(|| withheld_from("`[sandbox]`", &withheld)));
    under.narrowed(&grant)
}

/// Makes ready for children where there will be many; or why there cannot be any.
fn children(confiner: &Confiner, grant: &Grant, many_calls: bool) -> Option<Problem> {
    let refusal = confiner.refusal(grant);
    if refusal.is_none() && many_calls {
        confiner.keep_ready(grant);
    }
    refusal.map(|error| Problem::new(format!("`bash` and commands are {error}")))
}

/// The engine of plugins with the grants `grants`.
pub(super) fn engine<'g>(
    (options, prewarm): (&Options, Prewarm),
    dirs: &Dirs,
    confiner: &Confiner,
    grants: impl Iterator<Item = &'g Grant>,
) -> anyhow::Result<Engine> {
    let cache = Root::resolve(Path::new("/"), &dirs.cache)?;
    // Where nothing is covered for children, a directory that they may write is not haft's alone.
    let is_open = confiner.layers() == Layers::NONE;
    let exposed = grants.filter(|grant| is_open || !grant.hides(&cache));
    Ok(Engine::new(&EngineOptions {
        cache: Some(dirs.cache.join("components")),
        writable: exposed.map(|grant| grant.writable().clone()).collect(),
        pooling: options.many_calls,
        ahead: if options.many_calls { EngineOptions::DEFAULT_AHEAD } else { 0 },
        ahead_memory: Some(prewarm.memory),
        events: options.events.clone(),
        recorder: options.recorder.clone(),
        tiered: true,
    }))
}
