//! Adding a new entry: check, fetch, disclose, ask, write and pin.

use super::{Consent, Decision, Expected, InstallError, Installed, Installer, Operation, Proposal};
use crate::{Offered, PackageSource, ProjectError};
use haft_core::manifest::Name;

/// What to add.
#[derive(Clone, Debug)]
pub struct Addition {
    /// Where it comes from. A relative path starts from the program's folder.
    pub source: PackageSource,
    /// What a component is called, if not what it calls itself.
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

impl Installer<'_> {
    /// Installs what is not there yet: both files are written or neither. `None` where `consent` declined.
    ///
    /// # Errors
    /// Where it cannot be fetched, clashes with what is there, requires what is missing, or cannot be written.
    pub async fn add(
        &self,
        addition: Addition,
        consent: &dyn Consent,
    ) -> Result<Option<Installed>, InstallError> {
        let Addition { source, name, expected, allow_missing_programs } = addition;
        let candidate = self.fetch_candidate(source, expected, name).await?;
        self.check_addition(&candidate.offered, allow_missing_programs)?;
        let proposal = Proposal {
            candidate: &candidate,
            operation: Operation::Add,
            granted: &[],
            more: &candidate.offered.requests.iter().collect::<Vec<_>>(),
            previous: None,
        };
        let Decision::Install(granted) = consent.decide(&proposal).await? else { return Ok(None) };
        candidate.keep()?;
        self.write_new(&candidate, &granted)?;
        Ok(Some(candidate.installed(granted)))
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
