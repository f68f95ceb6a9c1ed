//! Adds an entry: check, fetch, disclose, ask, write and pin. Another version of an installed entry replaces
//! it, like an update.

use std::path::PathBuf;

use super::update::trusted_for_update;
use super::{
    Candidate, Consent, Decision, Expected, InstallError, Installed, Installer, Operation, Proposal, Updated,
};
use crate::lock::with_tag;
use crate::signature::Trust;
use crate::{Foreign, Offered, Origin, PackageSource, ProjectEntry, ProjectError};
use haft_manifest::Name;

/// The arguments of [`Installer::add`].
#[derive(Clone, Debug)]
pub struct Addition {
    /// The source. A relative path starts from the program's folder.
    pub source: PackageSource,
    /// The name, if it differs from the declared one: see [`Bundle::called`](crate::Bundle::called).
    pub name: Option<Name>,
    /// The expected digest and signer.
    pub expected: Expected,
    /// Whether the entry is added although programs that it requires are not on `PATH`.
    pub allow_missing_programs: bool,
}

impl Addition {
    /// Adds any content of `source`, signed or not.
    pub fn new(source: PackageSource) -> Self {
        Self { source, name: None, expected: Expected::anything(), allow_missing_programs: false }
    }
}

/// The result of [`Installer::add`].
#[derive(Clone, Debug)]
pub enum Added {
    /// A new entry was added.
    New(Box<Installed>),
    /// An installed entry was replaced, or was already up to date.
    Changed(Updated),
    /// Consent was declined.
    Declined,
}

impl Added {
    /// Returns the new installation; `None` if nothing changed.
    pub fn installed(self) -> Option<Installed> {
        match self {
            Self::New(installed) | Self::Changed(Updated::Replaced { installed, .. }) => Some(*installed),
            Self::Changed(Updated::Unchanged | Updated::Declined) | Self::Declined => None,
        }
    }
}

impl Installer<'_> {
    /// Adds an entry, or replaces the installed version of it. Writes both files or neither.
    ///
    /// # Errors
    /// The source cannot be fetched, the names clash with another entry, a required program is missing, or a
    /// file cannot be written.
    pub async fn add(&self, addition: Addition, consent: &dyn Consent) -> Result<Added, InstallError> {
        let Addition { source, name, expected, allow_missing_programs } = addition;
        let candidate = self.fetch_candidate(source, expected.clone(), name.clone()).await?;
        if let Some(entry) = self.other_version(&candidate) {
            // Boxed: the common case, a new entry, does not need this future.
            let changed = Box::pin(async {
                let candidate = self.signed_as_before(&entry, candidate, expected, name).await?;
                self.change_to(&entry, &candidate, consent).await
            });
            return Ok(Added::Changed(changed.await?));
        }
        self.check_addition(&candidate.offered, allow_missing_programs)?;
        let proposal = Proposal {
            candidate: &candidate,
            operation: Operation::Add,
            granted: &[],
            more: &candidate.offered.requests.iter().collect::<Vec<_>>(),
            previous: None,
        };
        let Decision::Install(granted) = consent.decide(&proposal).await? else { return Ok(Added::Declined) };
        candidate.keep()?;
        self.write_new(&candidate, &granted)?;
        Ok(Added::New(Box::new(candidate.installed(granted))))
    }

    /// Returns the entry with the name and the source of `candidate`, apart from the version.
    fn other_version(&self, candidate: &Candidate) -> Option<ProjectEntry> {
        let offered = &candidate.offered;
        let entry =
            self.project.entry(offered.name.as_str()).ok().filter(|entry| entry.kind == offered.kind)?;
        let is_installed = self.project.lock.find(entry.kind, entry.name.as_str()).is_some();
        (is_installed && is_same_place(&entry.source, &candidate.source)).then_some(entry)
    }

    /// Returns the candidate; fetches it again with the signer of program.toml or of the installed version if
    /// none was named on the command line.
    async fn signed_as_before(
        &self,
        entry: &ProjectEntry,
        candidate: Candidate,
        expected: Expected,
        name: Option<Name>,
    ) -> Result<Candidate, InstallError> {
        if !matches!(expected.trust, Trust::Nobody) {
            return Ok(candidate);
        }
        let old = self.project.lock.find(entry.kind, entry.name.as_str());
        match trusted_for_update(old, entry, None)? {
            Trust::Nobody => Ok(candidate),
            trust => {
                let expected = Expected { trust, ..expected };
                self.fetch_candidate(candidate.source.clone(), expected, name).await
            }
        }
    }

    /// Checks whether `offered` can be added, before consent is asked for.
    fn check_addition(&self, offered: &Offered, allow_missing_programs: bool) -> Result<(), InstallError> {
        let name = offered.name.to_string();
        if self.project.kind_of(&name).is_some() {
            return Err(ProjectError::Taken { path: self.project.path.clone(), name }.into());
        }
        self.check_clashes(offered)?;
        let programs = offered.bundle.as_ref().map(crate::Bundle::missing_programs).unwrap_or_default();
        if programs.is_empty() || allow_missing_programs {
            return Ok(());
        }
        Err(InstallError::MissingPrograms { name, programs })
    }
}

/// Reports whether two sources are one place: one repository, one URL apart from digits, or both on this
/// machine. Content with one name from one place is another version; content from another place is unrelated.
fn is_same_place(one: &PackageSource, other: &PackageSource) -> bool {
    place(one) == place(other)
}

/// Returns a source without its version.
fn place(source: &PackageSource) -> PackageSource {
    match source {
        PackageSource::Path(_) => PackageSource::Path(PathBuf::new()),
        PackageSource::Url(url) => PackageSource::Url(without_numbers(url)),
        PackageSource::Git { .. } | PackageSource::Oci(_) => with_tag(source, ""),
        PackageSource::Foreign(foreign) => {
            let origin = match &foreign.origin {
                Origin::Npm(name, _) => Origin::Npm(name.clone(), None),
                Origin::Pypi(name, _) => Origin::Pypi(name.clone(), None),
                Origin::File(_) => Origin::File(PathBuf::new()),
                Origin::Url(url) => Origin::Url(without_numbers(url)),
            };
            PackageSource::Foreign(Foreign { origin, settings: Vec::new() })
        }
    }
}

/// Replaces the version numbers of a URL: `https://a.test/v#/words-#.tar.gz`.
fn without_numbers(url: &str) -> String {
    let mut text = String::new();
    for part in url.split_inclusive(|c: char| !c.is_ascii_digit() && c != '.') {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = part.get(..part.len() - rest.len()).unwrap_or_default();
        text += if number.contains(|c: char| c.is_ascii_digit()) { "#" } else { number };
        text += rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_comes_from_the_same_place() {
        let is_same = |one: &str, other: &str| is_same_place(&one.parse().unwrap(), &other.parse().unwrap());
        for (one, other) in [
            ("./a.wasm", "/b/a.wasm"),
            ("oci://ghcr.io/me/words:1.0.0", "oci://ghcr.io/me/words:1.1.0"),
            ("oci://ghcr.io/me/words", "oci://ghcr.io/me/words:1.1.0"),
            ("git+https://a.test/w", "git+https://a.test/w@v2"),
            ("https://a.test/w/v1.0.9/w-1.0.9.tar.gz", "https://a.test/w/v1.1/w-1.1.tar.gz"),
        ] {
            assert!(is_same(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("./a.wasm", "https://a.test/a.wasm"),
            ("oci://ghcr.io/me/words:1.0.0", "oci://ghcr.io/you/words:1.0.0"),
            ("git+https://a.test/w", "git+https://b.test/w"),
            ("https://a.test/me/w-1.0.tar.gz", "https://a.test/you/w-1.1.tar.gz"),
        ] {
            assert!(!is_same(one, other), "{one} {other}");
        }
    }
}
