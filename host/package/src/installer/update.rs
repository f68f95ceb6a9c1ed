//! Updates one entry: fetches it again and asks for consent to all differences from the agreed content.

use super::{
    Candidate, Consent, Decision, Expected, InstallError, Installed, Installer, Operation, Previous,
    Proposal, UpdateReason,
};
use crate::disclosure::Change;
use crate::signature::{PublicKey, Trust};
use crate::{PackageSource, Pin, ProjectEntry, more};

/// The result of [`Installer::update`].
#[derive(Clone, Debug)]
pub enum Updated {
    /// The installed content is up to date.
    Unchanged,
    /// Other content is installed now.
    Replaced {
        /// The new installation.
        installed: Box<Installed>,
        /// The differences from the agreed content; `None` if that was not recorded.
        changes: Option<Vec<Change>>,
    },
    /// The user declined. The installed content stays.
    Declined,
}

impl Installer<'_> {
    /// Fetches an entry again. It must be signed by the owner of `key`, if given, else by the pinned signer.
    ///
    /// # Errors
    /// The source cannot be fetched, lacks the required signature, declares another name, clashes with another
    /// entry, or cannot be written.
    pub async fn update(
        &self,
        entry: &ProjectEntry,
        key: Option<PublicKey>,
        consent: &dyn Consent,
    ) -> Result<Updated, InstallError> {
        let old = self.project.lock.find(entry.kind, entry.name.as_str());
        let expected = Expected { digest: None, trust: trusted_for_update(old, key) };
        let candidate =
            self.fetch_candidate(entry.source.clone(), expected, Some(entry.name.clone())).await?;
        candidate.check_kind(entry)?;
        self.change_to(entry, &candidate, consent).await
    }

    /// Replaces the installed content of an entry by `candidate`.
    pub(super) async fn change_to(
        &self,
        entry: &ProjectEntry,
        candidate: &Candidate,
        consent: &dyn Consent,
    ) -> Result<Updated, InstallError> {
        let old = self.project.lock.find(entry.kind, entry.name.as_str());
        let before = old.and_then(|pin| Some(self.installed(pin).ok()?.own_name));
        candidate.check_name(entry, before.as_ref())?;
        if old.is_some_and(|old| is_same(old, candidate)) && self.verify(&candidate.pin(&[])).is_ok() {
            return Ok(Updated::Unchanged);
        }
        self.check_clashes(&candidate.offered)?;
        self.replace(entry, old, candidate, consent).await
    }

    /// Asks for consent to `candidate` and replaces the installed content.
    async fn replace(
        &self,
        entry: &ProjectEntry,
        old: Option<&Pin>,
        candidate: &Candidate,
        consent: &dyn Consent,
    ) -> Result<Updated, InstallError> {
        let agreed = old.map(|pin| pin.asked.as_slice()).unwrap_or_default();
        let more = more(agreed, &candidate.offered.requests);
        let changes = self.changes(old, candidate).await;
        let proposal = Proposal {
            candidate,
            operation: Operation::Update(update_reason(old, candidate, !more.is_empty())),
            granted: &entry.granted,
            more: &more,
            previous: old.map(|pin| Previous { pin, changes: changes.clone() }),
        };
        let Decision::Install(new) = consent.decide(&proposal).await? else {
            return Ok(Updated::Declined);
        };
        candidate.keep()?;
        let granted = [entry.granted.as_slice(), &new].concat();
        self.write_update(candidate.pin(&granted), &new)?;
        Ok(Updated::Replaced { installed: Box::new(candidate.installed(granted)), changes })
    }

    /// Returns the differences from the agreed content; `None` if that was not recorded.
    async fn changes(&self, old: Option<&Pin>, candidate: &Candidate) -> Option<Vec<Change>> {
        let pin = old?;
        let digests = pin.disclosed.as_ref()?;
        Some(candidate.disclosure.changes(digests, &self.previous_disclosure(pin).await))
    }
}

/// Returns the signer that an update must have.
fn trusted_for_update(old: Option<&Pin>, key: Option<PublicKey>) -> Trust {
    match (key, old.and_then(|pin| pin.signer.clone())) {
        (Some(key), _) => Trust::Named(key),
        (None, Some(signer)) => Trust::Pinned(signer),
        (None, None) => Trust::Nobody,
    }
}

/// Reports whether the candidate equals the installed version: content, source, signer and tool definitions.
fn is_same(old: &Pin, candidate: &Candidate) -> bool {
    let fetched = &candidate.fetched;
    old.kept == fetched.kept
        && old.source == candidate.source
        && old.signer.as_ref() == fetched.verdict.signer()
        && old.disclosed.as_ref() == Some(&candidate.disclosure.digests())
}

/// Returns the reason why consent is needed.
fn update_reason(old: Option<&Pin>, candidate: &Candidate, asks_for_more: bool) -> Option<UpdateReason> {
    let Some(old) = old else { return Some(UpdateReason::NotInstalled) };
    let is_other_content = old.kept != candidate.fetched.kept;
    let versions = old.version.clone().zip(candidate.offered.version.clone());
    let signers = old.signer.clone().zip(candidate.fetched.verdict.signer().cloned());
    let is_here = matches!(candidate.source, PackageSource::Path(_));
    match (signers, versions) {
        _ if asks_for_more => Some(UpdateReason::AsksForMore),
        (Some((before, now)), _) if before != now => Some(UpdateReason::OtherSigner { before, now }),
        (_, Some((before, now))) if now < before => Some(UpdateReason::Older { before, now }),
        (_, Some((before, now))) if !is_here && before == now && is_other_content => {
            Some(UpdateReason::SameVersion(now))
        }
        _ if old.disclosed.is_none() => Some(UpdateReason::NoDisclosure),
        _ if is_other_content && old.source != candidate.source => {
            Some(UpdateReason::OtherSource(old.source.clone()))
        }
        _ if is_other_content => Some(UpdateReason::OtherContent),
        _ if old.disclosed.as_ref() != Some(&candidate.disclosure.digests()) => {
            Some(UpdateReason::OtherTools)
        }
        _ => None,
    }
}
