//! Packages of a program: their installed content becomes tools. Fetches nothing, and uses only content whose
//! digest is the agreed one.

use super::loaded::{Agreed, Loaded, agreed, not_installed};
use super::patterns::{self, Unseen};
use haft_core::report::Problem;
use haft_core::skill::Shelved;
use haft_manifest::{Manifest, Package as Declared};
use haft_package::{Bundle, Kind, StoreError};
use haft_sandbox::process::private;

/// An installed package that can be used.
#[derive(Debug)]
pub(super) struct Installed<'a> {
    pub(super) declared: &'a Declared,
    pub(super) bundle: Bundle,
    /// The agreed definitions, by exposed names; `None` if an earlier version of haft recorded none.
    pub(super) agreed: Option<Agreed>,
}

impl Installed<'_> {
    /// Returns the package's entry and bundle.
    pub(super) fn parts(&self) -> (&Declared, &Bundle) {
        (self.declared, &self.bundle)
    }
}

/// Returns the enabled and installed packages, and a problem for each unusable package.
pub(super) fn installed(loaded: &Loaded) -> (Vec<Installed<'_>>, Vec<Problem>) {
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    for declared in loaded.manifest.packages.iter().filter(|package| package.enabled) {
        match open(declared, loaded) {
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
    (all, problems)
}

fn open(declared: &Declared, loaded: &Loaded) -> Result<(Bundle, Option<Agreed>), Problem> {
    let (name, source) = (declared.name.as_str(), &declared.source);
    let pin = loaded.pin(Kind::Package, name, source, declared.signer.as_ref())?;
    let pin = pin.ok_or_else(|| not_installed(name, source.span))?;
    let damaged = |why: String| {
        let problem = Problem::new(format!("package `{name}` has changed since its installation: {why}"));
        problem
            .at(declared.name.span, "left out")
            .hint("`haft add` fetches it again; `haft verify` checks everything")
    };
    let listing = match loaded.store.listing(&pin.kept) {
        Ok(listing) => listing,
        Err(StoreError::Absent) => return Err(not_installed(name, source.span)),
        Err(error) => return Err(damaged(error.to_string())),
    };
    let folder = loaded.store.tree(&pin.kept);
    let bundle = Bundle::read(&folder, listing).and_then(|bundle| bundle.called(&declared.name.value));
    let bundle = bundle.map_err(|error| damaged(error.to_string()))?;
    // Components are compared at their load. A program can use any file beside it.
    if bundle.runs_its_own() {
        bundle.listing.check(&folder).map_err(|error| damaged(error.to_string()))?;
    }
    let own = loaded.dirs.of_plugin(loaded.dirs.base(&loaded.manifest), name);
    Ok((bundle.with_own_paths().with_anchors(&private::data_of(&own)), agreed(pin)))
}

/// Returns the host requirements of the package that this machine lacks (PR06).
fn unmet(declared: &Declared, bundle: &Bundle) -> Option<Problem> {
    let missing = bundle.missing_programs();
    let name = declared.name.as_str();
    (!missing.is_empty()).then(|| {
        Problem::new(format!("package `{name}` is left out: it requires {}", missing.join(", ")))
            .at(declared.name.span, "not on PATH")
            .hint("install it, or add its directory to PATH")
    })
}

/// Returns a problem for the MCP servers in the head of the package's SKILL.md that are left out.
fn ignored(declared: &Declared, bundle: &Bundle) -> Option<Problem> {
    let ignored = bundle.ignored_servers()?;
    let problem = Problem::new(format!("package `{}`, {ignored}", declared.name.as_str()));
    Some(problem.at(declared.name.span, "this package").warning())
}

/// Returns possible tools besides those of `installed`: of disabled packages, and of enabled but unusable
/// packages. Their names are unknown.
pub(super) fn unseen(loaded: &Loaded, installed: &[Installed<'_>]) -> Unseen {
    let manifest = &loaded.manifest;
    let mut unseen = Unseen::switched_off(manifest);
    let used = |name: &str| installed.iter().any(|package| package.declared.name.as_str() == name);
    for package in manifest.packages.iter().filter(|package| package.enabled) {
        let name = package.name.as_str();
        if !used(name) {
            unseen.note("", format!("package `{name}` is not used"));
        }
    }
    unseen.extend(loaded.left_out.unseen.clone());
    unseen
}

/// Returns the origin of a package's tools, for people.
pub(super) fn origin(manifest: &Manifest, declared: &Declared) -> String {
    format!("package `{}` at {}", declared.name.as_str(), manifest.source.place(declared.name.span))
}

/// Returns the packages' skills for the model. A skill gets no tools of a server with an earlier server's name.
pub(super) fn skills(program: &Manifest, installed: &[Installed<'_>]) -> Vec<Shelved> {
    let prefixes = |manifest: &Manifest| -> Vec<String> {
        let servers = manifest.mcp_servers.iter().filter(|server| server.enabled);
        servers.map(|server| patterns::server_prefix(server.name.as_str())).collect()
    };
    let (mut taken, mut all) = (prefixes(program), Vec::new());
    for Installed { bundle, .. } in installed {
        for mut skill in bundle.shelved_skills() {
            skill.tools.retain(|prefix| !taken.contains(prefix));
            all.push(skill);
        }
        taken.extend(prefixes(&bundle.manifest));
    }
    all
}
