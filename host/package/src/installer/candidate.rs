//! Content that was fetched and parsed, but not installed. Dropping it removes its temporary files.

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

/// The expected properties of content that is to be fetched.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The required digest; `None` accepts any content.
    pub digest: Option<Digest>,
    /// The required signer.
    pub trust: Trust,
}

impl Expected {
    pub(crate) fn anything() -> Self {
        Self { digest: None, trust: Trust::Nobody }
    }

    /// Accepts the content of `pin` only, if there is a pin. The signer that program.toml requires must have signed
    /// the content; for an entry without one, the signature of a pin need no longer be available.
    pub(super) fn of_entry(entry: &ProjectEntry, pin: Option<&Pin>) -> Self {
        let trust = entry.signer.clone().map_or(Trust::Nobody, Trust::Named);
        Self { digest: pin.map(|pin| pin.digest.clone()), trust }
    }
}

/// Content that was fetched and parsed.
#[derive(Debug)]
pub struct Candidate {
    /// The installation in progress, which holds the temporary directory of the content.
    pub(crate) installing: Installing,
    /// The source.
    pub source: PackageSource,
    /// The fetched content.
    pub fetched: Fetched,
    /// The parsed content.
    pub offered: Offered,
    /// The items that the user has to agree to.
    pub disclosure: Disclosure,
}

impl Installer<'_> {
    /// Fetches and parses `source`. Content that is not `expected` is refused before it is parsed. `name`
    /// replaces the declared name.
    pub(crate) async fn fetch_candidate(
        &self,
        source: PackageSource,
        expected: Expected,
        name: Option<Name>,
    ) -> Result<Candidate, InstallError> {
        let installing = self.store.install()?;
        // Boxed: this future is larger than the rest of the function.
        let fetched = Box::pin(self.fetch(installing.directory(), &source, expected)).await?;
        let offered = Offered::new(&fetched.content, &fetched.kept, name, &source_stem(&source))?;
        let tools = self.tools.list_tools(&offered).await?;
        let disclosure = Disclosure::new(&offered, &tools)?;
        Ok(Candidate { installing, source, fetched, offered, disclosure })
    }

    /// Fetches `source` into the empty `directory` without parsing it.
    ///
    /// # Errors
    /// The source cannot be fetched, or is not `expected`.
    pub async fn fetch(
        &self,
        directory: &Path,
        source: &PackageSource,
        expected: Expected,
    ) -> Result<Fetched, InstallError> {
        let fetching = Fetching { expected: expected.digest, ..self.fetching(directory, &expected.trust) };
        Ok(fetch(source, &fetching).await?)
    }

    pub(crate) fn fetching<'f>(&'f self, directory: &'f Path, trust: &'f Trust) -> Fetching<'f> {
        Fetching {
            directory,
            base: self.project.folder(),
            home: self.home,
            progress: self.progress.clone(),
            expected: None,
            access: self.access,
            asks: self.asks,
            trust,
            root: self.root,
            confiner: self.confiner,
            grants: self.grants,
        }
    }
}

impl Candidate {
    /// Returns the pin for program.lock.
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

    pub(crate) fn tool_names(&self) -> impl Iterator<Item = &str> {
        let is_tool = |item: &&Item| item.kind == ItemKind::Tool;
        self.disclosure.items.iter().filter(is_tool).map(|item| item.name.as_str())
    }

    /// Stores the content. A component with a local path is used in place and not stored.
    pub(super) fn keep(&self) -> Result<(), StoreError> {
        let stays = self.offered.kind == Kind::Plugin && matches!(self.source, PackageSource::Path(_));
        if stays { Ok(()) } else { self.installing.keep(&self.fetched.content, &self.fetched.kept) }
    }

    /// Refuses a component for a package's entry, and the reverse.
    pub(super) fn check_kind(&self, entry: &ProjectEntry) -> Result<(), InstallError> {
        let (found, name) = (self.offered.kind, entry.name.to_string());
        if found == entry.kind {
            Ok(())
        } else {
            Err(InstallError::OtherKind { name, entry: entry.kind, found })
        }
    }

    /// Refuses a package whose declared name is neither its entry's name nor `before`, the declared name of the
    /// installed version.
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

/// Returns the name of a component that declares none, from its source: `words` for `./words.wasm`,
/// `https://a.test/words.wasm?x` and `oci://a.test/owner/words:1.0`.
pub fn source_stem(source: &PackageSource) -> String {
    let text = source.to_string();
    let reference = text.parse::<Reference>();
    let path = match &reference {
        Ok(reference) => reference.repository(),
        Err(_) => text.split(['?', '@']).next().unwrap_or_default(),
    };
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    last.strip_suffix(".wasm").unwrap_or(last).to_owned()
}
