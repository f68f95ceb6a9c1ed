//! Installation as a library call: check, fetch, disclose, ask for consent, write program.toml and
//! program.lock, pin. Prints nothing and asks nothing: the caller supplies a [`Consent`].
//!
//! - [`Installer::add`]: adds an entry; `add.rs`.
//! - [`Installer::restore`]: installs entries of program.toml and program.lock that this machine lacks;
//!   `restore.rs`.
//! - [`Installer::update`]: fetches an entry again; `update.rs`.
//! - [`Installer::newer`]: looks for later versions; `newer.rs`.
//! - [`Installer::remove`]: removes entries from program.toml and program.lock.

mod add;
mod candidate;
mod consent;
mod error;
mod restore;
mod update;

use std::path::{Path, PathBuf};

use async_trait::async_trait;

pub use self::add::{Added, Addition};
pub use self::candidate::{Candidate, Expected, source_stem};
pub(crate) use self::consent::UpdateReason;
pub use self::consent::{Consent, Decision, Operation, Previous, Proposal};
pub use self::error::InstallError;
pub use self::restore::Restored;
pub use self::update::{Newer, Updated};
use crate::disclosure::{Disclosure, ToolDisclosure};
use crate::edit::{self, EditError, NewEntry};
use crate::oci::Access;
use crate::signature::{self, Signer, Trust, TrustRoot};
use crate::{
    Change, Content, Digest, FetchError, FetchGrants, Kind, Offered, PackageSource, Pin, Progress, Project,
    ProjectEntry, ProjectError, Request, Store, StoreError,
};
use haft_core::call::ToolDef;
use haft_manifest::Name;
use haft_sandbox::confine::Confiner;

/// Changes the installed entries of a [`Project`]. It reads the project as it was when it was opened; writes
/// are checked against the files' current content.
#[derive(Clone, Copy)]
pub struct Installer<'a> {
    /// The program to change. Relative sources start from its folder.
    pub project: &'a Project,
    /// The store of installed content.
    pub store: &'a Store,
    /// The home directory, for `~`.
    pub home: &'a Path,
    /// The credentials for registries.
    pub access: &'a Access,
    /// The trust root of keyless signatures.
    pub root: &'a TrustRoot,
    /// Whether server secrets without a source are returned as
    /// [`ForeignError::Secrets`](crate::ForeignError::Secrets), so that the caller asks for them; otherwise they
    /// are variables.
    pub asks: bool,
    /// Receives the progress of downloads.
    pub progress: &'a Progress,
    /// Confines programs that fetch and build to `grants`.
    pub confiner: &'a Confiner,
    /// The rights of `git`, `npm` and `uv` during a fetch, besides writing its temporary directory.
    pub grants: &'a FetchGrants,
    /// Lists the tools of content that is not installed yet.
    pub tools: &'a dyn ToolLister,
}

/// The result of an installation.
#[derive(Clone, Debug)]
pub struct Installed {
    /// The pin in program.lock.
    pub pin: Pin,
    /// The granted requests, including earlier ones.
    pub granted: Vec<Request>,
    /// The names of the tools, as models see them.
    pub tools: Vec<String>,
}

/// Lists the tools of content that is not part of a program yet. An implementation runs components without any
/// rights.
#[async_trait]
pub trait ToolLister: Send + Sync {
    /// Lists all tools of `offered`, with the names and descriptions that a model receives.
    ///
    /// # Errors
    /// A component cannot be loaded, or does not list its tools.
    async fn list_tools(&self, offered: &Offered) -> anyhow::Result<Vec<ToolDisclosure>>;

    /// Returns the tools of a component that was listed before and may be missing now; `None` if they are unknown.
    fn remembered_tools(&self, pin: &Pin) -> Option<Vec<ToolDef>>;
}

impl Installer<'_> {
    /// Returns the installed content of a pin.
    ///
    /// # Errors
    /// The content is missing, or is too damaged to be parsed.
    pub fn installed(&self, pin: &Pin) -> Result<Offered, InstallError> {
        self.named(pin, Some(pin.name.clone()), pin.name.as_str())
    }

    /// Returns the installed content of a pin as an entry `name`, or under its declared name, or `stem`.
    fn named(&self, pin: &Pin, name: Option<Name>, stem: &str) -> Result<Offered, InstallError> {
        let content = match pin.kind {
            Kind::Package => Content::Tree(self.store.tree(&pin.kept), self.store.listing(&pin.kept)?),
            Kind::Plugin => Content::Component(self.component_path(pin)),
        };
        Ok(Offered::new(&content, &pin.kept, name, stem)?)
    }

    /// Returns the path of a pin's component: in the store, or its local source path.
    pub(crate) fn component_path(&self, pin: &Pin) -> PathBuf {
        match &pin.source {
            PackageSource::Path(path) => self.project.manifest.resolve(path, self.home),
            _ => self.store.component(&pin.kept),
        }
    }

    /// Reads all bytes of a pin and compares them with the agreed content.
    ///
    /// # Errors
    /// The bytes are missing or differ.
    pub fn verify(&self, pin: &Pin) -> Result<(), InstallError> {
        if !pin.is_used_in_place() {
            return Ok(self.store.check(&pin.kept, pin.kind == Kind::Plugin)?);
        }
        let path = self.component_path(pin);
        match Digest::of_file(&path, crate::MAX_SIZE) {
            Ok((found, _)) if found == pin.kept => Ok(()),
            Ok(_) => Err(StoreError::Changed(path).into()),
            Err(source) => Err(InstallError::Read { path, source }),
        }
    }

    /// Verifies a pin, and that it has the signer that program.toml requires. The signature beside a component that is
    /// used in place is checked again.
    ///
    /// # Errors
    /// The bytes are missing or differ, or the required signer did not sign them.
    pub fn verify_signed(&self, entry: &ProjectEntry, pin: &Pin) -> Result<(), InstallError> {
        let Some(signer) = &entry.signer else { return self.verify(pin) };
        if !pin.is_signed_by(signer) {
            let pinned = pin.signer.as_ref().map_or_else(|| "by nobody".to_owned(), Signer::describe);
            let (name, wanted) = (pin.name.to_string(), signer.describe());
            return Err(InstallError::OtherSigner { name, wanted, pinned });
        }
        self.verify(pin)?;
        if pin.is_used_in_place() {
            let trust = Trust::Named(signer.clone());
            let judged = signature::judge_beside(&self.component_path(pin), &trust, self.root);
            let what = pin.source.to_string();
            judged.map_err(|error| FetchError::Signature { what, error })?;
        }
        Ok(())
    }

    /// Returns the disclosure agreed to with `pin`, as far as it is still available on this machine.
    async fn previous_disclosure(&self, pin: &Pin) -> Disclosure {
        let kept = async {
            self.verify(pin)?;
            let offered = self.installed(pin)?;
            let tools = self.tools.list_tools(&offered).await?;
            Ok::<_, InstallError>(Disclosure::new(&offered, &tools)?)
        };
        match kept.await {
            Ok(disclosure) => disclosure,
            Err(error) => {
                tracing::debug!(%error, "the package that you agreed to is not completely available");
                let tools = self.tools.remembered_tools(pin);
                tools.map(Disclosure::from_tools).unwrap_or_default()
            }
        }
    }

    /// Fails if a plugin of `offered` has the name of another entry's plugin.
    fn check_clashes(&self, offered: &Offered) -> Result<(), InstallError> {
        let has = |name: &str| offered.plugins.iter().any(|plugin| plugin.name == name);
        let is_itself = |kind, name: &str| kind == offered.kind && name == offered.name.as_str();
        let plugins = self.project.manifest.plugins.iter().map(|plugin| plugin.name.as_str());
        let taken = plugins.into_iter().find(|name| has(name) && !is_itself(Kind::Plugin, name));
        if let Some(name) = taken {
            let owner = format!("`{}`", self.project.path.display());
            return Err(InstallError::Clash { plugin: name.to_owned(), owner });
        }
        let packages = self.project.lock.pins.iter().filter(|pin| pin.kind == Kind::Package);
        for pin in packages.filter(|pin| !is_itself(pin.kind, pin.name.as_str())) {
            // Content that cannot be parsed has no names.
            let Ok(other) = self.installed(pin) else { continue };
            if let Some(plugin) = other.plugins.iter().find(|plugin| has(&plugin.name)) {
                let owner = format!("the package `{}`", pin.name);
                return Err(InstallError::Clash { plugin: plugin.name.clone(), owner });
            }
        }
        Ok(())
    }

    /// Removes entries from program.toml and their pins from program.lock, all of them or none. The content
    /// stays in the store: other programs may use it.
    ///
    /// # Errors
    /// An entry does not exist, or the files cannot be written.
    pub fn remove<S: AsRef<str>>(&self, names: &[S]) -> Result<(), InstallError> {
        let entries = names.iter().map(|name| self.project.entry(name.as_ref()));
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        self.change(|project| {
            let (mut text, mut lock) = (project.text.clone(), project.lock.clone());
            for entry in &entries {
                let name = entry.name.as_str();
                text = edited(project, edit::remove(&text, entry.kind, name))?;
                lock.remove(entry.kind, name);
            }
            Ok(Change { text, lock })
        })
    }

    fn write_new(&self, candidate: &Candidate, granted: &[Request]) -> Result<(), InstallError> {
        let offered = &candidate.offered;
        let granted = written_in_entry(offered.kind, granted);
        self.change(|project| {
            let name = offered.name.as_str();
            if project.kind_of(name).is_some() {
                return Err(ProjectError::Taken { path: project.path.clone(), name: name.to_owned() });
            }
            let source = candidate.source.to_string();
            let entry = NewEntry { kind: offered.kind, name, source: &source, granted: &granted };
            let text = edited(project, edit::add(&edit::begun(&project.text, project.folder()), &entry))?;
            let mut lock = project.lock.clone();
            lock.put(candidate.pin(&granted));
            Ok(Change { text, lock })
        })
    }

    fn write_pin(&self, pin: Pin) -> Result<(), InstallError> {
        self.change(|project| {
            let mut lock = project.lock.clone();
            lock.put(pin);
            Ok(Change { text: project.text.clone(), lock })
        })
    }

    /// Pins an existing entry; writes its source, if it changed, and its new grants.
    fn write_update(&self, pin: Pin, new_grants: &[Request]) -> Result<(), InstallError> {
        let new_grants = written_in_entry(pin.kind, new_grants);
        self.change(|project| {
            let (kind, name) = (pin.kind, pin.name.as_str());
            let mut text = edited(project, edit::grant(&project.text, kind, name, &new_grants))?;
            if project.entry(name)?.source != pin.source {
                text = edited(project, edit::source(&text, kind, name, &pin.source.to_string()))?;
            }
            let mut lock = project.lock.clone();
            lock.put(pin);
            Ok(Change { text, lock })
        })
    }

    fn change(
        &self,
        change: impl FnOnce(&Project) -> Result<Change, ProjectError>,
    ) -> Result<(), InstallError> {
        Ok(Project::change(&self.project.path, self.store, change)?)
    }
}

/// Returns the grants that an entry stores: not a package's limits, which its own manifest has; a component has no
/// other place for them.
fn written_in_entry(kind: Kind, granted: &[Request]) -> Vec<Request> {
    let is_package = kind == Kind::Package;
    let is_written = |request: &&Request| !(is_package && matches!(request, Request::Limit(..)));
    granted.iter().filter(is_written).cloned().collect()
}

fn edited(project: &Project, text: Result<String, EditError>) -> Result<String, ProjectError> {
    text.map_err(|error| ProjectError::Edit { path: project.path.clone(), error })
}
