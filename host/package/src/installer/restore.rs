//! Restores one entry of program.toml to its pin in program.lock, and pins entries that have no pin yet.

use super::{Consent, Decision, Expected, InstallError, Installer, Operation, Previous, Proposal};
use crate::{Kind, PackageSource, Pin, ProjectEntry, lock_path, more, with_new};

/// The result of [`Installer::restore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The content was complete.
    Present,
    /// The entry is a local component without a pin and without a required signer.
    Unpinned,
    /// The pinned content was fetched again.
    Fetched,
    /// The user agreed to the entry, and it is pinned now.
    Adopted,
    /// The user declined.
    Declined,
    /// The pin's source differs from program.toml. Nothing was done.
    OtherSource,
}

impl Installer<'_> {
    /// Registers this program in the store as a user of its pins: another program may have installed them.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn register(&self) -> Result<(), InstallError> {
        if !self.project.lock.pins.is_empty() {
            self.store.register(&lock_path(&self.project.path))?;
        }
        Ok(())
    }

    /// Installs the content of an entry of program.toml: pinned content is fetched again without a question,
    /// other content needs `consent`. Complete content of the store is not fetched again: program.lock names its
    /// signer, and no network is needed.
    ///
    /// # Errors
    /// The source cannot be fetched, is not the agreed content, or lacks the signature that program.toml requires.
    pub async fn restore(
        &self,
        entry: &ProjectEntry,
        consent: &dyn Consent,
    ) -> Result<Restored, InstallError> {
        let (kind, name) = (entry.kind, entry.name.as_str());
        match self.project.lock.find(kind, name) {
            Some(pin) if pin.source != entry.source => Ok(Restored::OtherSource),
            Some(pin) => match self.verify_signed(entry, pin) {
                Ok(()) => Ok(Restored::Present),
                Err(error @ (InstallError::OtherSigner { .. } | InstallError::Fetch(_))) => Err(error),
                Err(error) if pin.is_used_in_place() => {
                    Err(InstallError::ChangedInPlace { name: name.to_owned(), why: error.to_string() })
                }
                Err(_) if pin.disclosed.is_some() => {
                    self.refetch(entry, pin).await.map(|()| Restored::Fetched)
                }
                // An earlier haft wrote this pin, without digests of the disclosure.
                Err(_) => self.adopt(entry, Some(pin), consent).await,
            },
            None if kind == Kind::Plugin
                && matches!(entry.source, PackageSource::Path(_))
                && entry.signer.is_none() =>
            {
                Ok(Restored::Unpinned)
            }
            None => self.adopt(entry, None, consent).await,
        }
    }

    async fn refetch(&self, entry: &ProjectEntry, pin: &Pin) -> Result<(), InstallError> {
        let (name, expected) = (pin.name.to_string(), Expected::of_entry(entry, Some(pin)));
        let candidate = self.fetch_candidate(pin.exact_source(), expected, Some(pin.name.clone())).await?;
        if candidate.fetched.kept != pin.kept {
            return Err(InstallError::OtherContent(name));
        }
        if pin.disclosed.as_ref().is_some_and(|digests| *digests != candidate.disclosure.digests()) {
            return Err(InstallError::OtherTools(name));
        }
        Ok(candidate.keep()?)
    }

    /// Installs an entry that the user wrote into program.toml by hand, with its grants. With `pinned`,
    /// installs exactly the content that an earlier haft pinned without digests of the disclosure.
    async fn adopt(
        &self,
        entry: &ProjectEntry,
        pinned: Option<&Pin>,
        consent: &dyn Consent,
    ) -> Result<Restored, InstallError> {
        let name = Some(entry.name.clone());
        let source = pinned.map_or_else(|| entry.source.clone(), Pin::exact_source);
        let candidate = self.fetch_candidate(source, Expected::of_entry(entry, pinned), name).await?;
        candidate.check_kind(entry)?;
        let agreed = pinned.map(|pin| pin.asked.as_slice()).unwrap_or_default();
        let proposal = Proposal {
            candidate: &candidate,
            operation: Operation::Adopt,
            granted: &entry.granted,
            more: &more(agreed, &candidate.offered.requests),
            previous: pinned.map(|pin| Previous { pin, changes: None }),
        };
        let Decision::Install(new) = consent.decide(&proposal).await? else { return Ok(Restored::Declined) };
        candidate.keep()?;
        let pin = candidate.pin(&with_new(&entry.granted, &new));
        let pin = match pinned.cloned() {
            // The signature may no longer be available; an update must still be signed with the same key.
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
