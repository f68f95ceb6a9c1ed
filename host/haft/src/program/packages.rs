//! Packages of a program: what was installed becomes its tools. Nothing is fetched here, and nothing
//! is used whose bytes are not those that were agreed to.

use std::path::Path;
use std::sync::Arc;

use super::allow::Allow;
use super::assembly::Assembly;
use super::children::command_spec;
use super::patterns::Unseen;
use super::pending_plugin::{PendingPlugin, offers};
use super::pins::{Agreed, Pinned, agreed, not_installed};
use super::{Dirs, approvals, grants, patterns};
use haft_core::grant::{Grant, Right, Root};
use haft_core::report::Problem;
use haft_core::skill::Shelved;
use haft_core::tool::SubjectArgument;
use haft_manifest::{Manifest, Package as Declared};
use haft_package::{Bundle, Kind, StoreError};
use haft_plugin_host::{GrantPlace, Source};
use haft_sandbox::confine::Confiner;
use haft_sandbox::native::command::{self, CommandTool};

/// A package that is installed and can be used.
#[derive(Debug)]
pub(super) struct Installed<'a> {
    pub(super) declared: &'a Declared,
    pub(super) bundle: Bundle,
    /// The definitions that the user agreed to, by exposed names; `None` where an earlier haft recorded none.
    agreed: Option<Agreed>,
}

impl Installed<'_> {
    /// The names of its plugins.
    pub(super) fn plugins(&self) -> impl Iterator<Item = &str> {
        let plugins = self.bundle.manifest.plugins.iter().filter(|plugin| plugin.enabled);
        plugins.map(|plugin| plugin.name.as_str())
    }

    /// Whether it starts processes.
    pub(super) fn has_commands(&self) -> bool {
        self.bundle.manifest.has_commands()
    }
}

/// The packages that are enabled and installed. What keeps one from being used is a problem, and the
/// others are used.
pub(super) fn installed<'m>(
    manifest: &'m Manifest,
    pinned: &Pinned<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<Installed<'m>> {
    let mut all = Vec::new();
    for declared in manifest.packages.iter().filter(|package| package.enabled) {
        match open(declared, pinned) {
            Ok((bundle, agreed)) => match unmet(declared, &bundle) {
                None => {
                    problems.extend(ignored(declared, &bundle));
                    all.push(Installed { declared, bundle, agreed });
                }
                Some(problem) => problems.push(problem),
            },
            Err(problem) => problems.push(problem),
        }
    }
    all
}

fn open(declared: &Declared, pinned: &Pinned<'_>) -> Result<(Bundle, Option<Agreed>), Problem> {
    let (name, source) = (declared.name.as_str(), &declared.source);
    let pin = pinned.find(Kind::Package, name, source)?.ok_or_else(|| not_installed(name, source.span))?;
    let damaged = |why: String| {
        let problem = Problem::new(format!("package `{name}` is not what was installed: {why}"));
        problem
            .at(declared.name.span, "left out")
            .hint("`haft add` fetches it again; `haft verify` checks everything")
    };
    let listing = match pinned.store.listing(&pin.kept) {
        Ok(listing) => listing,
        Err(StoreError::Absent) => return Err(not_installed(name, source.span)),
        Err(error) => return Err(damaged(error.to_string())),
    };
    let folder = pinned.store.tree(&pin.kept);
    let bundle = Bundle::read(&folder, listing).and_then(|bundle| bundle.called(&declared.name.value));
    let bundle = bundle.map_err(|error| damaged(error.to_string()))?;
    // Components are compared one by one when they are loaded; a program can use any file beside it.
    if bundle.runs_its_own() {
        bundle.listing.check(&folder).map_err(|error| damaged(error.to_string()))?;
    }
    Ok((bundle.with_own_paths(), agreed(pin)))
}

/// What the package needs and this machine has not got (PR06).
fn unmet(declared: &Declared, bundle: &Bundle) -> Option<Problem> {
    let missing = bundle.missing_programs();
    let name = declared.name.as_str();
    (!missing.is_empty()).then(|| {
        Problem::new(format!("package `{name}` is left out: it requires {}", missing.join(", ")))
            .at(declared.name.span, "not on PATH")
            .hint("install it, or put the directory it is in on PATH")
    })
}

/// MCP servers that the package's SKILL.md names and haft does not start.
fn ignored(declared: &Declared, bundle: &Bundle) -> Option<Problem> {
    let ignored = bundle.ignored_servers()?;
    let problem = Problem::new(format!("package `{}` has {ignored}", declared.name.as_str()));
    let problem = problem.at(declared.name.span, "this package");
    Some(problem.hint("its author declares them as `[[mcp_servers]]` in its program.toml"))
}

/// What each plugin of each package may do: within `rights`, which are those of the program's own tools
/// and those of this run.
pub(super) fn granted(
    manifest: &Manifest,
    dirs: &Dirs,
    rights: (&Grant, &[Allow]),
    installed: &[Installed<'_>],
    problems: &mut Vec<Problem>,
) -> anyhow::Result<Vec<Vec<Grant>>> {
    let of_one = |package: &Installed<'_>| {
        let package = (package.declared, &package.bundle);
        grants::package(manifest, dirs, rights, package, problems)
    };
    installed.iter().map(of_one).collect()
}

/// The tools that there may be besides those of `installed`: what is switched off, and what enabled packages
/// have that are not usable. Theirs may be called anything.
pub(super) fn unused(manifest: &Manifest, installed: &[Installed<'_>]) -> Unseen {
    let mut unseen = Unseen::switched_off(manifest);
    let used = |name: &str| installed.iter().any(|package| package.declared.name.as_str() == name);
    for package in manifest.packages.iter().filter(|package| package.enabled) {
        let name = package.name.as_str();
        if !used(name) {
            unseen.note("", format!("package `{name}` is not used"));
        }
    }
    unseen
}

/// What the packages tell the model.
pub(super) fn skills(installed: &[Installed<'_>]) -> Vec<Shelved> {
    installed.iter().filter_map(|package| package.bundle.shelved_skill()).collect()
}

/// Patterns of `[[packages]] tools` that no tool has.
pub(super) fn check_patterns(assembly: &mut Assembly<'_>) {
    let names: Vec<&str> = assembly.toolbox.names().collect();
    let mut problems = Vec::new();
    for package in assembly.manifest.packages.iter().filter(|package| package.enabled) {
        let patterns =
            package.tools.iter().flatten().filter(|pattern| assembly.unseen.reason_for(pattern).is_none());
        let owner = format!("package `{}`", package.name.as_str());
        problems.extend(patterns::problems(&owner, ("tools", package.name.span), &names, patterns));
    }
    assembly.problems.extend(problems);
}

/// The plugins of packages, with what each may do: `granted`, in the same order.
pub(super) fn plugins<'m>(
    assembly: &mut Assembly<'m>,
    installed: &'m [Installed<'m>],
    dirs: &Dirs,
    granted: Vec<Vec<Grant>>,
) -> anyhow::Result<Vec<PendingPlugin<'m>>> {
    let mut pending = Vec::new();
    for (Installed { declared, bundle, agreed }, grants) in installed.iter().zip(granted) {
        for ((plugin, file, digest), grant) in bundle.components().zip(grants) {
            pending.push(PendingPlugin {
                name: plugin.name.as_str().to_owned(),
                source: Source::Pinned(file, digest.hex().to_owned()),
                grant,
                place: GrantPlace::Package(declared.name.as_str().to_owned()),
                limits: plugin.limits,
                about: SubjectArgument::All,
                declared: Some(plugin),
                package: Some(declared),
                agreed: agreed.clone(),
                on: &[],
            });
        }
        note_unasked(assembly, grants::unasked(assembly.manifest, dirs, declared, bundle)?, declared);
    }
    Ok(pending)
}

fn note_unasked(assembly: &mut Assembly<'_>, rights: Vec<Right>, declared: &Declared) {
    let name = declared.name.as_str();
    assembly.problems.extend(rights.into_iter().map(|right| {
        let text = format!("`{right}` in `[packages.grant]` has no effect: nothing in `{name}` asks for it");
        Problem::new(text).at(declared.name.span, "this package").hint("remove it")
    }));
}

/// The commands of packages. They run with the rights of the program's own, see the variables that the
/// package was granted, and read what lies beside them.
pub(super) fn add_commands(
    assembly: &mut Assembly<'_>,
    installed: &[Installed<'_>],
    confiner: &Confiner,
    grant: &Grant,
) -> anyhow::Result<()> {
    for Installed { declared, bundle, .. } in installed {
        let folder = Root::resolve(Path::new("/"), &bundle.folder)?;
        let own =
            if grant.readable().covers(&folder) { grant.clone() } else { grant.clone().with_read(folder) };
        let tools: Vec<_> = bundle
            .manifest
            .tools
            .iter()
            .filter(|tool| {
                offers(declared, &command::exposed_name(declared.name.as_str(), tool.name.as_str()))
            })
            .collect();
        for tool in tools {
            let env = tool.env.iter().filter(|name| declared.grant.env.contains(name));
            let grant = env.fold(own.clone(), Grant::with_env);
            add_command(assembly, declared, bundle, tool, confiner, &grant);
        }
    }
    Ok(())
}

fn add_command(
    assembly: &mut Assembly<'_>,
    declared: &Declared,
    bundle: &Bundle,
    tool: &haft_manifest::CommandTool,
    confiner: &Confiner,
    grant: &Grant,
) {
    let spec = command_spec(&bundle.manifest, declared.name.as_str(), tool);
    let exposed = command::exposed_name(&spec.program, &spec.tool);
    let alias = format!("program:{}:{}", spec.program, spec.tool);
    let origin = assembly.origin_of(declared);
    let inserted = match CommandTool::new(confiner.clone(), spec) {
        Ok(command) => {
            let limits = command.limits();
            let command = Arc::new(command);
            let approval = tool.confirm.then(|| approvals::for_command(command.name()));
            let inserted = assembly.insert(command, grant, limits, origin, approval);
            inserted.map_err(|error| error.to_string())
        }
        Err(error) => Err(format!("command tool `{}` cannot be used: {error}", tool.name.as_str())),
    };
    match inserted {
        Ok(()) => assembly.toolbox.alias(alias, &exposed),
        Err(error) => assembly.left_out(declared, error),
    }
}
