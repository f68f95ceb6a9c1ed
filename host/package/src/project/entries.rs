//! The installable entries of a program.toml: `[[packages]]` and `[[plugins]]`.

use super::{Project, ProjectError};
use crate::request::{limits_requests, table_requests};
use crate::signature::Signer;
use crate::{Kind, PackageSource, Request};
use haft_core::limit::Limits;
use haft_core::report::{Problem, Report};
use haft_manifest::{GrantTable, Located, Manifest, Name, PluginSecret};

/// An installable entry of program.toml.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectEntry {
    /// The entry's table.
    pub kind: Kind,
    /// The entry's name.
    pub name: Name,
    /// The entry's source.
    pub source: PackageSource,
    /// The required signer.
    pub signer: Option<Signer>,
    /// The grants in program.toml: rights, secrets and the limits of a component.
    pub granted: Vec<Request>,
}

impl Project {
    /// Returns all entries in the order of the file: packages, then plugins.
    pub fn entries(&self) -> Vec<ProjectEntry> {
        let packages = self.manifest.packages.iter().map(|package| ProjectEntry {
            kind: Kind::Package,
            name: package.name.value.clone(),
            source: package.source.value.clone(),
            signer: signer(package.signer.as_ref()),
            granted: granted(&package.grant, &package.secrets, None),
        });
        let plugins = self.manifest.plugins.iter().map(|plugin| ProjectEntry {
            kind: Kind::Plugin,
            name: plugin.name.value.clone(),
            source: plugin.component.value.source(),
            signer: signer(plugin.signer.as_ref()),
            granted: granted(&plugin.grant, &plugin.secrets, Some(&plugin.limits)),
        });
        packages.chain(plugins).collect()
    }

    /// Returns the entry with this name.
    ///
    /// # Errors
    /// The entry does not exist; the error contains the nearest name.
    pub fn entry(&self, name: &str) -> Result<ProjectEntry, ProjectError> {
        let entries = self.entries();
        if let Some(entry) = entries.iter().find(|entry| entry.name.as_str() == name) {
            return Ok(entry.clone());
        }
        let nearest = haft_core::report::nearest(name, entries.iter().map(|entry| entry.name.as_str()));
        let (path, name, nearest) = (self.path.clone(), name.to_owned(), nearest.map(str::to_owned));
        Err(ProjectError::NoEntry { path, name, nearest })
    }

    /// Returns the table of the entry of this name.
    pub fn kind_of(&self, name: &str) -> Option<Kind> {
        self.entries().into_iter().find(|entry| entry.name.as_str() == name).map(|entry| entry.kind)
    }
}

pub(super) fn check_signers(manifest: &Manifest) -> Result<(), Report> {
    let packages = manifest.packages.iter().map(|package| package.signer.as_ref());
    let written = packages.chain(manifest.plugins.iter().map(|plugin| plugin.signer.as_ref())).flatten();
    let wrong = written.filter_map(|signer| {
        let why = signer.value.parse::<Signer>().err()?.to_string();
        Some(Problem::new("`signer` is not a valid signer").at(signer.span, why))
    });
    let problems: Vec<Problem> = wrong.collect();
    if problems.is_empty() { Ok(()) } else { Err(manifest.report(problems)) }
}

/// Returns the grants of an entry. A package's own manifest has its limits.
fn granted(table: &GrantTable, secrets: &[PluginSecret], limits: Option<&Limits>) -> Vec<Request> {
    let secrets = secrets.iter().map(|secret| Request::Secret(None, secret.clone()));
    let limits = limits.into_iter().flat_map(|limits| limits_requests(None, limits));
    table_requests(None, table).into_iter().chain(secrets).chain(limits).collect()
}

fn signer(written: Option<&Located<String>>) -> Option<Signer> {
    // `check_signers` refused invalid ones.
    written.and_then(|signer| signer.value.parse().ok())
}
