//! Reads the installed content of a program's pins, and compares it with the agreed content. Changes nothing.

use std::path::PathBuf;

use super::{InstallError, Installer};
use crate::disclosure::Disclosure;
use crate::{Content, Digest, Kind, Offered, PackageSource, Pin, StoreError};

impl Installer<'_> {
    /// Returns the installed content of a pin.
    ///
    /// # Errors
    /// The content is missing, or is too damaged to be parsed.
    pub fn installed(&self, pin: &Pin) -> Result<Offered, InstallError> {
        let content = match pin.kind {
            Kind::Package => Content::Tree(self.store.tree(&pin.kept), self.store.listing(&pin.kept)?),
            Kind::Plugin => Content::Component(self.component_path(pin)),
        };
        Ok(Offered::new(&content, &pin.kept, Some(pin.name.clone()), pin.name.as_str())?)
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

    /// Returns the disclosure that was agreed to with `pin`, as far as it is still available on this machine.
    pub(super) async fn previous_disclosure(&self, pin: &Pin) -> Disclosure {
        let kept = async {
            self.verify(pin)?;
            let offered = self.installed(pin)?;
            let tools = self.tools.list_tools(&offered).await?;
            Ok::<_, InstallError>(Disclosure::new(&offered, &tools)?)
        };
        match kept.await {
            Ok(disclosure) => disclosure,
            Err(error) => {
                tracing::debug!(%error, "what was agreed to is not to be had as a whole");
                let tools = self.tools.remembered_tools(pin);
                tools.map(Disclosure::from_tools).unwrap_or_default()
            }
        }
    }

    /// Fails if a plugin of `offered` has the name of another entry's plugin.
    pub(super) fn check_clashes(&self, offered: &Offered) -> Result<(), InstallError> {
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
}
