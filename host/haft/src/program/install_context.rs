//! What installing works with: the places of this machine, an engine that lists a component's tools, and
//! the rights that commands of the program have. Loads none of the program's tools.

use std::sync::OnceLock;

use super::options::Options;
use super::{Dirs, grants, rights};
use haft_core::grant::Grant;
use haft_core::manifest::Manifest;
use haft_package::Store;
use haft_plugin_host::Engine;
use haft_sandbox::confine::Confiner;

/// A place to look at packages before they are a part of a program.
#[derive(Debug)]
pub struct InstallContext {
    /// Where things are.
    pub places: Dirs,
    /// Where what is installed is kept.
    pub store: Store,
    /// What `bash` and commands of the program may do.
    pub sandbox: Grant,
    /// What `git` may do while it fetches.
    pub errand: Grant,
    /// What holds both to it.
    pub confiner: Confiner,
    options: Options,
    declared: Vec<Grant>,
    engine: OnceLock<Engine>,
}

impl InstallContext {
    /// A bench for the program `manifest`.
    pub fn new(options: &Options, manifest: &Manifest) -> anyhow::Result<Self> {
        let places = Dirs::of_this_machine()?;
        let mut problems = Vec::new();
        let sandbox = grants::sandbox(manifest, &places, &options.allow, &mut problems)?;
        let declared = grants::plugins(manifest, &places, &[], &sandbox, &mut problems)?;
        let (errand, store) = (grants::errand(&places)?, Store::new(&places.store));
        let (confiner, engine) = (options.confiner.clone().unwrap_or_default(), OnceLock::new());
        let options = options.clone();
        Ok(Self { places, store, sandbox, errand, confiner, options, declared, engine })
    }

    /// Runs components to list their tools, with no rights. Made at its first use: most of what is done
    /// to packages runs nothing.
    pub fn engine(&self) -> anyhow::Result<&Engine> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let grants = std::iter::once(&self.sandbox).chain(&self.declared);
        let made = rights::engine(&self.options, &self.places, &self.confiner, grants)?;
        Ok(self.engine.get_or_init(|| made))
    }
}
