//! Looks for versions newer than the installed one in the tag lists of registries and repositories. Fetches no
//! content and changes nothing.

use super::{InstallError, Installer, source_stem};
use crate::oci::{self, Reference, SCHEME};
use crate::signature::Trust;
use crate::tags::{VersionTag, later};
use crate::{Content, FetchError, Foreign, Kind, Offered, PackageSource, Pin, foreign, git};

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

/// The tags of a source, and the content that its reference points to now.
struct Listed {
    tags: Vec<String>,
    now: Option<String>,
}

impl Installer<'_> {
    /// Looks for a version newer than `pin`.
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
        let listed = self.listed(&pin.source, has_version).await?;
        let tags = listed.tags.iter().map(String::as_str).filter(|_| has_version);
        if let Some((version, tag)) = later(used.filter(|_| is_version), pin.version.as_ref(), tags) {
            let (source, is_renamed) = (with_tag(&pin.source, tag), self.is_renamed(pin));
            return Ok(Newer::Version { version, source, is_renamed });
        }
        let is_moved = !is_exact && listed.now.is_some() && listed.now != pin.resolved;
        Ok(match (is_moved, is_exact && pin.version.is_none()) {
            (true, _) => Newer::Moved,
            (false, true) => Newer::Unlisted,
            (false, false) => Newer::Nothing,
        })
    }

    /// Looks for a version newer than `pin` of an MCP server of others.
    async fn newer_foreign(&self, pin: &Pin, foreign: &Foreign) -> Result<Newer, InstallError> {
        let installing = self.store.install()?;
        let fetching = self.fetching(installing.directory(), &Trust::Nobody);
        let Some(latest) = foreign::latest(foreign, &fetching).await.map_err(FetchError::from)? else {
            return Ok(Newer::Unlisted);
        };
        let installed = pin.resolved.as_deref().map(foreign::resolved_version).unwrap_or_default();
        let version = foreign::semantic(&latest);
        if version <= foreign::semantic(installed) {
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

    /// Lists the tags and resolves the reference. A registry's tags are fetched only if `wanted`: they take
    /// another request.
    async fn listed(&self, source: &PackageSource, wanted: bool) -> Result<Listed, InstallError> {
        let installing = self.store.install()?;
        let fetching = self.fetching(installing.directory(), &Trust::Nobody);
        match source {
            PackageSource::Git { url, reference } => {
                let refs = git::refs(url, &fetching).await.map_err(FetchError::from)?;
                let now = git::commit_of(&refs, reference.as_deref());
                let tags = refs.iter().filter_map(|(name, _)| name.strip_prefix("refs/tags/"));
                let tags = tags.filter(|tag| !tag.ends_with("^{}")).map(str::to_owned).collect();
                Ok(Listed { tags, now })
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
                Ok(Listed { tags, now: now.map(|digest| digest.to_string()) })
            }
        }
    }

    /// Reports whether the installed content would have another name without its entry.
    fn is_renamed(&self, pin: &Pin) -> bool {
        let content = match pin.kind {
            Kind::Plugin => Content::Component(self.component_path(pin)),
            Kind::Package => match self.store.listing(&pin.kept) {
                Ok(listing) => Content::Tree(self.store.tree(&pin.kept), listing),
                Err(_) => return false,
            },
        };
        Offered::new(&content, &pin.kept, None, &source_stem(&pin.source))
            .is_ok_and(|offered| offered.name != pin.name)
    }
}

/// Returns the tag of a registry source.
fn tag(source: &PackageSource) -> Option<&str> {
    let PackageSource::Oci(reference) = source else { return None };
    let (_, last) = reference.split('@').next()?.rsplit_once('/')?;
    last.split_once(':').map(|(_, tag)| tag)
}

/// Reports whether a source always names the same content: a commit, a digest.
fn is_fixed(source: &PackageSource) -> bool {
    match source {
        PackageSource::Git { reference, .. } => reference.is_some(),
        PackageSource::Oci(reference) => reference.contains('@'),
        PackageSource::Path(_) | PackageSource::Url(_) | PackageSource::Foreign(_) => false,
    }
}

fn with_tag(source: &PackageSource, tag: &str) -> PackageSource {
    match source {
        PackageSource::Git { url, .. } => {
            PackageSource::Git { url: url.clone(), reference: Some(tag.to_owned()) }
        }
        source => match source.to_string().parse::<Reference>() {
            Ok(reference) => {
                let tagged = reference.with_tag(tag).to_string();
                PackageSource::Oci(tagged.trim_start_matches(SCHEME).to_owned())
            }
            Err(_) => source.clone(),
        },
    }
}
