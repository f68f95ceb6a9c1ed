//! Restoring one entry of program.toml to what program.lock pins, and pinning what it does not pin yet.

use super::{Candidate, Consent, Decision, Expected, InstallError, Installer, Operation, Previous, Proposal};
use crate::{Kind, PackageSource, Pin, ProjectEntry, lock_path, more};

/// What came of restoring one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// All of it was there.
    Present,
    /// It is a file that nothing pins, and stays one.
    Unpinned,
    /// What is pinned was fetched again.
    Fetched,
    /// It was agreed to, and is pinned now.
    Adopted,
    /// It was not agreed to.
    Declined,
    /// It is pinned from another source than program.toml names. Nothing was done.
    OtherSource,
}

impl Installer<'_> {
    /// Notes in the store that this program uses what it pins: another one may have installed it.
    ///
    /// # Errors
    /// Where the store cannot be written.
    pub fn register(&self) -> Result<(), InstallError> {
        if !self.project.lock.pins.is_empty() {
            self.store.register(&lock_path(&self.project.path))?;
        }
        Ok(())
    }

    /// Makes what an entry of program.toml names be there: what is pinned is fetched again without a question, what is
    /// not is put to `consent`.
    ///
    /// # Errors
    /// Where it cannot be fetched, or is something else than what was agreed to.
    pub async fn restore(
        &self,
        entry: &ProjectEntry,
        consent: &dyn Consent,
    ) -> Result<Restored, InstallError> {
        let (kind, name) = (entry.kind, entry.name.as_str());
        match self.project.lock.find(kind, name) {
            Some(pin) if pin.source != entry.source => Ok(Restored::OtherSource),
            Some(pin) if self.verify(pin).is_ok() => Ok(Restored::Present),
            Some(pin) if pin.disclosed.is_some() || pin.is_used_in_place() => {
                self.refetch(pin).await.map(|()| Restored::Fetched)
            }
            // An earlier haft pinned it, without recording what it disclosed.
            Some(pin) => self.adopt(entry, Some(pin), consent).await,
            None if kind == Kind::Plugin && matches!(entry.source, PackageSource::Path(_)) => {
                Ok(Restored::Unpinned)
            }
            None => self.adopt(entry, None, consent).await,
        }
    }

    /// Fetches what a pin says, from where it says.
    async fn refetch(&self, pin: &Pin) -> Result<(), InstallError> {
        let name = pin.name.to_string();
        if pin.is_used_in_place() {
            let why = self.verify(pin).err().map(|error| error.to_string()).unwrap_or_default();
            return Err(InstallError::ChangedInPlace { name, why });
        }
        let own = Some(pin.name.clone());
        let candidate = self.fetch_candidate(pin.exact_source(), Expected::pinned(pin), own).await?;
        if candidate.fetched.kept != pin.kept {
            return Err(InstallError::OtherContent(name));
        }
        if pin.disclosed.as_ref().is_some_and(|digests| *digests != candidate.disclosure.digests()) {
            return Err(InstallError::OtherTools(name));
        }
        Ok(candidate.keep()?)
    }

    /// Installs an entry that the user wrote into program.toml by hand, with its grants; with `pinned`, exactly what
    /// an earlier haft pinned without recording what it disclosed.
    async fn adopt(
        &self,
        entry: &ProjectEntry,
        pinned: Option<&Pin>,
        consent: &dyn Consent,
    ) -> Result<Restored, InstallError> {
        let own = Some(entry.name.clone());
        let source = pinned.map_or_else(|| entry.source.clone(), Pin::exact_source);
        let expected = pinned.map_or_else(Expected::anything, Expected::pinned);
        let candidate = self.fetch_candidate(source, expected, own).await?;
        candidate.check_kind(entry)?;
        let Some(new) = ask_to_adopt(&candidate, entry, pinned, consent).await? else {
            return Ok(Restored::Declined);
        };
        candidate.keep()?;
        let pin = candidate.pin(&[entry.granted.clone(), new.clone()].concat());
        let pin = match pinned.cloned() {
            // The signature may no longer be available; an update must be signed with the same key all the same.
            Some(Pin { source, resolved, signer, .. }) => Pin { source, resolved, signer, ..pin },
            None => pin,
        };
        if new.is_empty() {
            self.write_pin(pin)?;
        } else {
            self.write_update(pin, &new)?;
        }
        Ok(Restored::Adopted)
    }
}

/// What is granted besides what program.toml grants; `None` where it is declined.
async fn ask_to_adopt(
    candidate: &Candidate,
    entry: &ProjectEntry,
    pinned: Option<&Pin>,
    consent: &dyn Consent,
) -> Result<Option<Vec<crate::Request>>, InstallError> {
    let agreed = pinned.map(|pin| pin.asked.as_slice()).unwrap_or_default();
    let proposal = Proposal {
        candidate,
        operation: Operation::Adopt,
        granted: &entry.granted,
        more: &more(agreed, &candidate.offered.requests),
        previous: pinned.map(|pin| Previous { pin, changes: None }),
    };
    match consent.decide(&proposal).await? {
        Decision::Install(new) => Ok(Some(new)),
        Decision::Decline => Ok(None),
    }
}
