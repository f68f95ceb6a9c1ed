//! What is installed for the pins of a program, compared with what was agreed to. Changes nothing.

use std::path::PathBuf;

use super::{InstallError, Installer};
use crate::disclosure::Disclosure;
use crate::{Content, Digest, Kind, Offered, PackageSource, Pin, StoreError};

impl Installer<'_> {
    /// What is installed for a pin.
    ///
    /// # Errors
    /// Where it is not there, or is not whole enough to be understood.
    pub fn installed(&self, pin: &Pin) -> Result<Offered, InstallError> {
        let content = match pin.kind {
            Kind::Package => Content::Tree(self.store.tree(&pin.kept), self.store.listing(&pin.kept)?),
            Kind::Plugin => Content::Component(self.component_path(pin)),
        };
        Ok(Offered::new(&content, &pin.kept, Some(pin.name.clone()), pin.name.as_str())?)
    }

    /// Where the component of a pin is: in the store, or where its author has it.
    pub(crate) fn component_path(&self, pin: &Pin) -> PathBuf {
        match &pin.source {
            PackageSource::Path(path) => self.project.manifest.resolve(path, self.home),
            _ => self.store.component(&pin.kept),
        }
    }

    /// Reads all bytes of a pin and compares them with what was agreed to.
    ///
    /// # Errors
    /// Where they are not there or are others.
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

    /// What was disclosed when `pin` was made, as far as it is still to be had on this machine.
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

    /// Fails where a plugin of `offered` has the name of another that is there.
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
            // What cannot be understood any more has no names to clash with.
            let Ok(other) = self.installed(pin) else { continue };
            if let Some(plugin) = other.plugins.iter().find(|plugin| has(&plugin.name)) {
                let owner = format!("the package `{}`", pin.name);
                return Err(InstallError::Clash { plugin: plugin.name.clone(), owner });
            }
        }
        Ok(())
    }
}
