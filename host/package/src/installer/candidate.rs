//! Something that was fetched and understood, and is not installed. Dropping it leaves nothing behind.

use std::path::Path;

use super::{InstallError, Installed, Installer};
use crate::disclosure::{Disclosure, Item, ItemKind};
use crate::oci::Reference;
use crate::signature::Trust;
use crate::{
    Digest, Fetched, Fetching, Installing, Kind, Offered, PackageSource, Pin, ProjectEntry, Request,
    StoreError, fetch,
};
use haft_manifest::Name;

/// What is known of a thing before it is fetched.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Of what is fetched; anything where there is none.
    pub digest: Option<Digest>,
    /// The signer that is required.
    pub trust: Trust,
}

impl Expected {
    /// Nothing is known.
    pub(crate) fn anything() -> Self {
        Self { digest: None, trust: Trust::Nobody }
    }

    /// The content of a pin, whether or not its signature is still to be had.
    pub(super) fn pinned(pin: &Pin) -> Self {
        Self { digest: Some(pin.digest.clone()), trust: Trust::Nobody }
    }
}

/// Something that was fetched and understood.
#[derive(Debug)]
pub struct Candidate {
    /// The install under way, which holds the temporary directory of the content.
    pub(crate) installing: Installing,
    /// Where it came from.
    pub source: PackageSource,
    /// What came.
    pub fetched: Fetched,
    /// What that is.
    pub offered: Offered,
    /// All that there is to agree to.
    pub disclosure: Disclosure,
}

impl Installer<'_> {
    /// Fetches `source` and understands it. What is not `expected` is refused before it is looked at. It may be given a
    /// `name`.
    ///
    /// # Errors
    /// Where it cannot be fetched, is not `expected`, is no package, or does not list its tools.
    pub(crate) async fn fetch_candidate(
        &self,
        source: PackageSource,
        expected: Expected,
        name: Option<Name>,
    ) -> Result<Candidate, InstallError> {
        let installing = self.store.install()?;
        // Its future holds more than everything around it.
        let fetched = Box::pin(self.fetch(installing.directory(), &source, expected)).await?;
        let offered = Offered::new(&fetched.content, &fetched.kept, name, &source_stem(&source))?;
        let tools = self.tools.list_tools(&offered).await?;
        let disclosure = Disclosure::new(&offered, &tools)?;
        Ok(Candidate { installing, source, fetched, offered, disclosure })
    }

    /// Fetches `source` to the empty `directory`, and does not look at what it is.
    ///
    /// # Errors
    /// Where it cannot be fetched or is not `expected`.
    pub async fn fetch(
        &self,
        directory: &Path,
        source: &PackageSource,
        expected: Expected,
    ) -> Result<Fetched, InstallError> {
        let fetching = Fetching { expected: expected.digest, ..self.fetching(directory, &expected.trust) };
        Ok(fetch(source, &fetching).await?)
    }

    /// What is fetched with.
    pub(super) fn fetching<'f>(&'f self, directory: &'f Path, trust: &'f Trust) -> Fetching<'f> {
        Fetching {
            directory,
            base: self.project.folder(),
            home: self.home,
            progress: self.progress.clone(),
            expected: None,
            access: self.access,
            trust,
            confiner: self.confiner,
            grant: self.git_grant,
        }
    }
}

impl Candidate {
    /// What program.lock says of it.
    pub fn pin(&self, granted: &[Request]) -> Pin {
        Pin {
            name: self.offered.name.clone(),
            kind: self.offered.kind,
            source: self.source.clone(),
            resolved: self.fetched.resolved.clone(),
            digest: self.fetched.digest.clone(),
            kept: self.fetched.kept.clone(),
            version: self.offered.version.clone(),
            contracts: self.offered.contracts(),
            signer: self.fetched.verdict.signer().cloned(),
            asked: self.offered.requests.iter().map(ToString::to_string).collect(),
            granted: granted.iter().map(ToString::to_string).collect(),
            disclosed: Some(self.disclosure.digests()),
        }
    }

    /// The names of its tools.
    pub(crate) fn tool_names(&self) -> impl Iterator<Item = &str> {
        let is_tool = |item: &&Item| item.kind == ItemKind::Tool;
        self.disclosure.items.iter().filter(is_tool).map(|item| item.name.as_str())
    }

    /// Puts it into the store. A component of this machine stays where it is.
    pub(super) fn keep(&self) -> Result<(), StoreError> {
        let stays = self.offered.kind == Kind::Plugin && matches!(self.source, PackageSource::Path(_));
        if stays { Ok(()) } else { self.installing.keep(&self.fetched.content, &self.fetched.kept) }
    }

    /// Refuses a component where a package is to be, or the other way round.
    pub(super) fn check_kind(&self, entry: &ProjectEntry) -> Result<(), InstallError> {
        let (found, name) = (self.offered.kind, entry.name.to_string());
        if found == entry.kind {
            Ok(())
        } else {
            Err(InstallError::OtherKind { name, entry: entry.kind, found })
        }
    }

    /// Refuses a package that calls itself otherwise than its entry does, and than `before`, what is installed, did.
    pub(super) fn check_name(&self, entry: &ProjectEntry, before: Option<&Name>) -> Result<(), InstallError> {
        let found = &self.offered.own_name;
        if *found == entry.name || before == Some(found) {
            return Ok(());
        }
        Err(InstallError::OtherName { name: entry.name.to_string(), found: found.to_string() })
    }

    pub(super) fn installed(&self, granted: Vec<Request>) -> Installed {
        let tools = self.tool_names().map(str::to_owned).collect();
        Installed { pin: self.pin(&granted), granted, tools }
    }
}

/// What a component is called that does not say, after where it comes from: `words` for `./words.wasm`,
/// `https://a.test/words.wasm?x` and `oci://a.test/owner/words:1.0`.
pub fn source_stem(source: &PackageSource) -> String {
    let text = source.to_string();
    if let Ok(reference) = text.parse::<Reference>() {
        return last_part(reference.repository());
    }
    last_part(text.split(['?', '@']).next().unwrap_or_default())
}

fn last_part(path: &str) -> String {
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    last.strip_suffix(".wasm").unwrap_or(last).to_owned()
}
