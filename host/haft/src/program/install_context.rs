//! What installing works with: the directories of this machine, an engine that lists a component's tools, and
//! the rights that commands of the program have. Loads none of the program's tools.

use std::sync::OnceLock;

use super::grants::{self, Grants};
use super::options::Options;
use super::{Dirs, rights};
use haft_core::grant::Grant;
use haft_core::lookup::HostPrograms;
use haft_manifest::Manifest;
use haft_package::oci::{Access, CredentialFiles};
use haft_package::{Installer, Progress, Project, Store};
use haft_plugin_host::Engine;
use haft_sandbox::confine::Confiner;

/// What packages are fetched, listed and kept with before they are a part of a program.
#[derive(Debug)]
pub struct InstallContext {
    /// Where things are.
    pub dirs: Dirs,
    /// Where what is installed is kept.
    pub store: Store,
    /// The credentials for registries: those that docker and podman keep for this user.
    pub access: Access,
    /// Receives the progress of downloads; no receiver by default.
    pub progress: Progress,
    /// What `bash` and commands of the program may do.
    pub sandbox: Grant,
    /// What `git`, `npm` and `uv` may do while they fetch.
    pub fetch_grant: Grant,
    /// What holds all of them to it.
    pub confiner: Confiner,
    options: Options,
    declared: Vec<Grant>,
    engine: OnceLock<Engine>,
}

impl InstallContext {
    /// What is needed to install into the program `manifest`.
    pub fn new(options: &Options, manifest: &Manifest) -> anyhow::Result<Self> {
        let dirs = Dirs::of_this_machine()?;
        let mut grants = Grants::new(manifest, &dirs, &options.allow)?;
        let sandbox = grants.sandbox(None)?.tools;
        let declared = grants.plugins(&sandbox)?;
        let (fetch_grant, store) = (grants::fetch(manifest, &dirs, &options.allow)?, Store::new(&dirs.store));
        let credentials = CredentialFiles::from_environment(&dirs.home);
        let access = Access { credentials, programs: HostPrograms::of(&sandbox), ..Access::default() };
        let (confiner, engine) = (options.confiner.clone().unwrap_or_default(), OnceLock::new());
        let (options, progress) = (options.clone(), Progress::default());
        Ok(Self { dirs, store, access, progress, sandbox, fetch_grant, confiner, options, declared, engine })
    }

    /// What installs into `project`, with the tools listed by components that run without rights.
    pub fn installer<'a>(&'a self, project: &'a Project) -> Installer<'a> {
        Installer {
            project,
            store: &self.store,
            home: &self.dirs.home,
            access: &self.access,
            asks: false,
            progress: &self.progress,
            confiner: &self.confiner,
            fetch_grant: &self.fetch_grant,
            tools: self,
        }
    }

    /// Runs components to list their tools, with no rights. Made at its first use: most of what is done
    /// to packages runs nothing.
    pub fn engine(&self) -> anyhow::Result<&Engine> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let grants = std::iter::once(&self.sandbox).chain(&self.declared);
        let made = rights::engine(&self.options, &self.dirs, &self.confiner, grants)?;
        Ok(self.engine.get_or_init(|| made))
    }
}
