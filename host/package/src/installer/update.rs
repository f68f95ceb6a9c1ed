//! Updates one entry: fetches it again and asks for consent to all differences from the agreed content.

use super::{
    Candidate, Consent, Decision, Expected, InstallError, Installed, Installer, Operation, Previous,
    Proposal, UpdateReason, source_stem,
};
use crate::disclosure::Change;
use crate::lock::with_tag;
use crate::oci::{self, Reference};
use crate::signature::{Signer, Trust};
use crate::tags::{VersionTag, later, semantic};
use crate::{FetchError, Foreign, PackageSource, Pin, ProjectEntry, foreign, git, more, with_new};

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
    /// Fetches an entry again. It must be signed by `signer`, if given, else by the signer that program.toml names,
    /// else by the pinned one. Another signer in program.toml replaces the pinned one only if it is `signer`.
    ///
    /// # Errors
    /// The source cannot be fetched, lacks the required signature, declares another name, clashes with another entry,
    /// or cannot be written.
    pub async fn update(
        &self,
        entry: &ProjectEntry,
        signer: Option<Signer>,
        consent: &dyn Consent,
    ) -> Result<Updated, InstallError> {
        let old = self.project.lock.find(entry.kind, entry.name.as_str());
        let expected = Expected { digest: None, trust: trusted_for_update(old, entry, signer)? };
        let candidate =
            self.fetch_candidate(entry.source.clone(), expected, Some(entry.name.clone())).await?;
        candidate.check_kind(entry)?;
        self.change_to(entry, &candidate, consent).await
    }

    /// Replaces the installed content of an entry by `candidate`, if the user consents.
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
        let granted = with_new(&entry.granted, &new);
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

pub(super) fn trusted_for_update(
    old: Option<&Pin>,
    entry: &ProjectEntry,
    named: Option<Signer>,
) -> Result<Trust, InstallError> {
    if let Some(signer) = named {
        return Ok(Trust::Named(signer));
    }
    match (entry.signer.clone(), old.and_then(|pin| pin.signer.clone())) {
        // The author of program.toml may not be the user who agreed to the pinned signer.
        (Some(wanted), Some(pinned)) if !wanted.admits(&pinned) && !pinned.admits(&wanted) => {
            let (wanted, pinned) = (wanted.describe(), pinned.describe());
            Err(InstallError::OtherSigner { name: entry.name.to_string(), wanted, pinned })
        }
        (Some(signer), _) => Ok(Trust::Named(signer)),
        (None, Some(signer)) => Ok(Trust::Pinned(signer)),
        (None, None) => Ok(Trust::Nobody),
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

// Finds versions newer than the installed one in the tag lists of registries and repositories. Fetches no content and
// changes nothing.

/// The result of [`Installer::newer`].
#[derive(Clone, Debug, PartialEq)]
pub enum Newer {
    /// No later version exists.
    Nothing,
    /// A later version exists.
    Version {
        /// The version.
        version: semver::Version,
        /// The source of that version.
        source: PackageSource,
        /// Whether the declared name differs from the entry's name.
        is_renamed: bool,
    },
    /// The tag, branch or default branch points to other content now.
    Moved,
    /// The source has no list of versions: a file, a folder, a URL, a digest without a version.
    Unlisted,
}

impl Installer<'_> {
    /// Finds a version newer than `pin`.
    ///
    /// # Errors
    /// The registry or repository does not respond.
    pub async fn newer(&self, pin: &Pin) -> Result<Newer, InstallError> {
        let used = match &pin.source {
            PackageSource::Path(_) | PackageSource::Url(_) => return Ok(Newer::Unlisted),
            PackageSource::Git { reference, .. } => reference.as_deref(),
            PackageSource::Oci(_) => tag(&pin.source),
            PackageSource::Foreign(foreign) => return self.newer_foreign(pin, foreign).await,
        };
        let is_version = used.is_some_and(|used| VersionTag::parse(used).is_some());
        let is_exact = used.is_none_or(|used| pin.resolved.as_deref() == Some(used)) && is_fixed(&pin.source);
        // A pin on a branch, or on `latest`, does not follow versions.
        let has_version = is_version || is_exact;
        let (tags, now) = self.listed(&pin.source, has_version).await?;
        let tags = tags.iter().map(String::as_str).filter(|_| has_version);
        if let Some((version, tag)) = later(used.filter(|_| is_version), pin.version.as_ref(), tags) {
            let (source, is_renamed) = (with_tag(&pin.source, tag), self.is_renamed(pin));
            return Ok(Newer::Version { version, source, is_renamed });
        }
        let is_moved = !is_exact && now.is_some() && now != pin.resolved;
        Ok(match (is_moved, is_exact && pin.version.is_none()) {
            (true, _) => Newer::Moved,
            (false, true) => Newer::Unlisted,
            (false, false) => Newer::Nothing,
        })
    }

    /// Finds a version newer than `pin` of an MCP server in another format.
    async fn newer_foreign(&self, pin: &Pin, foreign: &Foreign) -> Result<Newer, InstallError> {
        let installing = self.store.install()?;
        let fetching = self.fetching(installing.directory(), &Trust::Nobody);
        let Some(latest) = foreign::latest(foreign, &fetching).await.map_err(FetchError::from)? else {
            return Ok(Newer::Unlisted);
        };
        let installed = pin.resolved.as_deref().map(foreign::resolved_version).unwrap_or_default();
        let version = semantic(&latest);
        if version <= semantic(installed) {
            return Ok(Newer::Nothing);
        }
        // A source without a version is followed by adding it again.
        let newer = if foreign.version().is_some() { foreign.at(&latest) } else { foreign.clone() };
        Ok(Newer::Version {
            version,
            source: PackageSource::Foreign(newer),
            is_renamed: self.is_renamed(pin),
        })
    }

    /// Returns the tags of a source, and the content that its reference points to now. The tags of a registry are
    /// fetched only if `wanted`, because they need another request.
    async fn listed(
        &self,
        source: &PackageSource,
        wanted: bool,
    ) -> Result<(Vec<String>, Option<String>), InstallError> {
        let installing = self.store.install()?;
        let fetching = self.fetching(installing.directory(), &Trust::Nobody);
        match source {
            PackageSource::Git { url, reference, .. } => {
                let refs = git::refs(url, &fetching).await.map_err(FetchError::from)?;
                let now = git::commit_of(&refs, reference.as_deref());
                let tags = refs.iter().filter_map(|(name, _)| name.strip_prefix("refs/tags/"));
                let tags = tags.filter(|tag| !tag.ends_with("^{}")).map(str::to_owned).collect();
                Ok((tags, now))
            }
            source => {
                let reference: Reference = source.to_string().parse().map_err(FetchError::from)?;
                let tags = if wanted {
                    oci::tags(&reference, self.access).await.map_err(FetchError::from)?
                } else {
                    Vec::new()
                };
                let now = match reference.digest() {
                    Some(_) => None,
                    None => oci::resolve(&reference, self.access).await.map_err(FetchError::from)?,
                };
                Ok((tags, now.map(|digest| digest.to_string())))
            }
        }
    }

    /// Reports whether the installed content would have another name without its entry.
    fn is_renamed(&self, pin: &Pin) -> bool {
        let own = self.named(pin, None, &source_stem(&pin.source));
        own.is_ok_and(|offered| offered.name != pin.name)
    }
}

fn tag(source: &PackageSource) -> Option<&str> {
    let PackageSource::Oci(reference) = source else { return None };
    let (_, last) = reference.split('@').next()?.rsplit_once('/')?;
    last.split_once(':').map(|(_, tag)| tag)
}

/// Reports whether a source always has one content: a commit, or a digest.
fn is_fixed(source: &PackageSource) -> bool {
    match source {
        PackageSource::Git { reference, .. } => reference.is_some(),
        PackageSource::Oci(reference) => reference.contains('@'),
        PackageSource::Path(_) | PackageSource::Url(_) | PackageSource::Foreign(_) => false,
    }
}
