//! The grant of a command behind `haft wrap`: it runs in a private directory, with the rights that the user gave.
//! Without such a right it has neither the network nor the folder in which it was started.

use std::path::{Path, PathBuf};

use super::Dirs;
use super::grants::{self, Grants, needed, root};
use haft_core::grant::Grant;
use haft_manifest::{Manifest, Wrapped};
use haft_sandbox::process::private;

/// Directories in which packages that use each other are siblings.
const PACKAGES: &[&str] = &["node_modules", "site-packages"];

/// Returns the grant of `record` for a command that works in the current directory, even without the right to
/// read that directory. `key` names the private directory. The command reads `files`, from which it starts, and
/// the packages installed beside them.
///
/// # Errors
/// A right cannot be granted, or a directory cannot be created.
pub fn wrapped(dirs: &Dirs, key: &str, record: &Wrapped, files: &[PathBuf]) -> anyhow::Result<Grant> {
    let manifest = Manifest { source: record.source.clone(), ..Manifest::default() };
    let mut grants = Grants::new(&manifest, dirs, &[])?;
    let own = private::written(&dirs.processes.join(key));
    let grant = grants.table(&record.grant.rights)?.of_process();
    let grant = grants.with_services(grant, &record.grant.services).with_workspace(root(&dirs.here)?);
    // The files in a server's home belong to its user, as without haft. No other process removes them, so that
    // the size has no limit.
    let grant = grant.with_state(u64::MAX).with_private(root(&own)?);
    let grant = grant.with_caches(root(&private::caches(&own))?);
    let needs =
        needed(files, &dirs.here, dirs).into_iter().chain(files.iter().filter_map(|file| packages(file)));
    let needs = needs.filter(|path| path.exists()).map(|path| root(&path));
    let grant = grants.of_child(grant, needs.collect::<anyhow::Result<_>>()?);
    grants::refuse_links(&grant)?;
    Ok(grant)
}

fn packages(file: &Path) -> Option<PathBuf> {
    let is_of_packages = |place: &&Path| PACKAGES.iter().any(|packages| place.ends_with(packages));
    file.ancestors().filter(is_of_packages).last().map(Path::to_owned)
}
