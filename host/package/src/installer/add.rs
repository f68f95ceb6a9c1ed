//! Adding an entry: check, fetch, disclose, ask, write and pin. Another version of what is installed takes its place, as
//! an update does.

use super::{
    Candidate, Consent, Decision, Expected, InstallError, Installed, Installer, Operation, Proposal, Updated,
};
use crate::oci::Reference;
use crate::signature::Trust;
use crate::{Offered, PackageSource, ProjectEntry, ProjectError};
use haft_manifest::Name;

/// What to add.
#[derive(Clone, Debug)]
pub struct Addition {
    /// Where it comes from. A relative path starts from the program's folder.
    pub source: PackageSource,
    /// What it is called, if not what it calls itself: see [`Bundle::called`](crate::Bundle::called).
    pub name: Option<Name>,
    /// What is known of it.
    pub expected: Expected,
    /// Whether it is added although programs that it requires are not on `PATH`.
    pub allow_missing_programs: bool,
}

impl Addition {
    /// Whatever is at `source`, signed or not.
    pub fn new(source: PackageSource) -> Self {
        Self { source, name: None, expected: Expected::anything(), allow_missing_programs: false }
    }
}

/// What came of adding.
#[derive(Clone, Debug)]
pub enum Added {
    /// It is a new entry.
    New(Box<Installed>),
    /// There was another version of it, or the same.
    Changed(Updated),
    /// It was not agreed to.
    Declined,
}

impl Added {
    /// What is installed now; `None` where nothing was changed.
    pub fn installed(self) -> Option<Installed> {
        match self {
            Self::New(installed) | Self::Changed(Updated::Replaced { installed, .. }) => Some(*installed),
            Self::Changed(Updated::Unchanged | Updated::Declined) | Self::Declined => None,
        }
    }
}

impl Installer<'_> {
    /// Installs what is not there yet, or another version of what is: both files are written or neither.
    ///
    /// # Errors
    /// Where it cannot be fetched, clashes with what is there, requires what is missing, or cannot be written.
    pub async fn add(&self, addition: Addition, consent: &dyn Consent) -> Result<Added, InstallError> {
        let Addition { source, name, expected, allow_missing_programs } = addition;
        let candidate = self.fetch_candidate(source, expected.clone(), name.clone()).await?;
        if let Some(entry) = self.other_version(&candidate) {
            // Boxed, since adding something new goes another way.
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

    /// The entry of the same name that is installed from where `candidate` comes from, version apart.
    fn other_version(&self, candidate: &Candidate) -> Option<ProjectEntry> {
        let offered = &candidate.offered;
        let entry =
            self.project.entry(offered.name.as_str()).ok().filter(|entry| entry.kind == offered.kind)?;
        let is_installed = self.project.lock.find(entry.kind, entry.name.as_str()).is_some();
        (is_installed && is_same_place(&entry.source, &candidate.source)).then_some(entry)
    }

    /// The candidate, fetched once more where what is installed was signed: with the same key, unless another was named.
    async fn signed_as_before(
        &self,
        entry: &ProjectEntry,
        candidate: Candidate,
        expected: Expected,
        name: Option<Name>,
    ) -> Result<Candidate, InstallError> {
        let pinned =
            self.project.lock.find(entry.kind, entry.name.as_str()).and_then(|pin| pin.signer.clone());
        match (pinned, &expected.trust) {
            (Some(signer), Trust::Nobody) => {
                let expected = Expected { trust: Trust::Pinned(signer), ..expected };
                self.fetch_candidate(candidate.source.clone(), expected, name).await
            }
            _ => Ok(candidate),
        }
    }

    /// Checks whether it can be added, before consent is asked for.
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

/// Whether two sources are of one repository, of one server and path but for numbers, or both of this machine: what has
/// the same name there is another version. What merely is called the same is something else.
fn is_same_place(one: &PackageSource, other: &PackageSource) -> bool {
    match (one, other) {
        (PackageSource::Path(_), PackageSource::Path(_)) => true,
        (PackageSource::Url(one), PackageSource::Url(other)) => {
            without_numbers(one) == without_numbers(other)
        }
        (PackageSource::Git { url: one, .. }, PackageSource::Git { url: other, .. }) => one == other,
        (PackageSource::Oci(_), PackageSource::Oci(_)) => {
            let repository = |source: &PackageSource| {
                let reference: Option<Reference> = source.to_string().parse().ok();
                reference.map(|reference| reference.with_tag(""))
            };
            repository(one).is_some_and(|one| repository(other) == Some(one))
        }
        _ => false,
    }
}

/// A URL without what differs between versions: `https://a.test/v#/words-#.tar.gz`.
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
