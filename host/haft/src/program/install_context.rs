//! What installing works with: the directories of this machine, an engine that lists a component's tools, and
//! the rights that commands of the program have. Loads none of the program's tools.

use std::sync::OnceLock;

use anyhow::Context;
use async_trait::async_trait;

use super::grants::{self, Grants};
use super::options::Options;
use super::{Dirs, command_spec, described, rights};
use haft_core::call::ToolDef;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::lookup::HostPrograms;
use haft_manifest::Manifest;
use haft_package::disclosure::ToolDisclosure;
use haft_package::oci::{Access, CredentialFiles};
use haft_package::signature::TrustRoot;
use haft_package::{
    Bundle, FetchGrants, Installer, Kind, Offered, OfferedPlugin, Pin, Progress, Project, Store, ToolLister,
};
use haft_plugin_host::{Engine, Plugin, PluginOffer, Source};
use haft_sandbox::confine::Confiner;
use haft_sandbox::native::command::{self, CommandSpec};
use haft_sandbox::native::script;

/// What packages are fetched, listed and kept with before they are a part of a program.
#[derive(Debug)]
pub struct InstallContext {
    /// Where things are.
    pub dirs: Dirs,
    /// Where what is installed is kept.
    pub store: Store,
    /// The credentials for registries: those that docker and podman keep for this user.
    pub access: Access,
    /// What makes keyless signatures right: the person's own file, or what Sigstore publishes.
    pub root: TrustRoot,
    /// Receives the progress of downloads; no receiver by default.
    pub progress: Progress,
    /// What `bash` and commands of the program may do.
    pub sandbox: Grant,
    /// What programs may do that fetch and build packages.
    pub fetch_grants: FetchGrants,
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
        let (fetch_grants, store) =
            (grants::fetch(manifest, &dirs, &options.allow)?, Store::new(&dirs.store));
        let credentials = CredentialFiles::from_environment(&dirs.home);
        let access = Access { credentials, programs: HostPrograms::of(&sandbox), ..Access::default() };
        let (confiner, engine) = (options.confiner.clone().unwrap_or_default(), OnceLock::new());
        let (options, progress) = (options.clone(), Progress::default());
        let root = TrustRoot::in_folder(&dirs.config);
        Ok(Self {
            dirs,
            store,
            access,
            root,
            progress,
            sandbox,
            fetch_grants,
            confiner,
            options,
            declared,
            engine,
        })
    }

    /// What installs into `project`, with the tools listed by components that run without rights.
    pub fn installer<'a>(&'a self, project: &'a Project) -> Installer<'a> {
        Installer {
            project,
            store: &self.store,
            home: &self.dirs.home,
            access: &self.access,
            root: &self.root,
            asks: false,
            progress: &self.progress,
            confiner: &self.confiner,
            grants: &self.fetch_grants,
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

// Lists the tools of packages that are not installed yet: components run with no rights, commands are read from the
// package's program.toml.

/// Memory that a component may use while it is asked for its tools, whatever it asks for itself.
const MAX_LISTING_MEMORY: u64 = 1 << 30;

#[async_trait]
impl ToolLister for InstallContext {
    async fn list_tools(&self, offered: &Offered) -> anyhow::Result<Vec<ToolDisclosure>> {
        let mut tools = Vec::new();
        for plugin in &offered.plugins {
            tools.extend(exposed_tools(offered, &plugin.name, &self.plugin_tools(plugin).await?));
        }
        if let Some(bundle) = &offered.bundle {
            tools.extend(command_tools(bundle));
        }
        Ok(tools)
    }

    fn remembered_tools(&self, pin: &Pin) -> Option<Vec<ToolDef>> {
        if pin.kind != Kind::Plugin {
            return None;
        }
        let defs = Plugin::remembered(self.engine().ok()?, pin.kept.hex(), pin.name.as_str())?;
        Some(defs.into_iter().map(|def| exposed(pin.name.as_str(), def)).collect())
    }
}

impl InstallContext {
    async fn plugin_tools(&self, offered: &OfferedPlugin) -> anyhow::Result<Vec<ToolDef>> {
        let source = Source::Pinned(offered.file.clone(), offered.digest.hex().to_owned());
        let usual = Limits::default();
        let limits = Limits {
            memory: offered.limits.memory.min(MAX_LISTING_MEMORY),
            time: offered.limits.time.min(usual.time),
            ..offered.limits
        };
        let plugin = Plugin::load(self.engine()?, &offered.name, source, &limits).await;
        let plugin = plugin.with_context(|| format!("`{}` cannot be loaded", offered.name))?;
        Ok(plugin.definitions(&offered.name))
    }
}

/// The tools of a plugin as a model is told of them: under their exposed names, with the descriptions that
/// the package's program.toml puts instead of their own.
fn exposed_tools(offered: &Offered, plugin: &str, defs: &[ToolDef]) -> Vec<ToolDisclosure> {
    let plugins = offered.bundle.iter().flat_map(|bundle| &bundle.manifest.plugins);
    let declared = plugins.into_iter().find(|declared| declared.name.as_str() == plugin);
    let disclosure =
        |def| ToolDisclosure { def: exposed(plugin, described(declared, def)), runs: Vec::new() };
    defs.iter().map(disclosure).collect()
}

fn exposed(plugin: &str, def: ToolDef) -> ToolDef {
    ToolDef { name: PluginOffer::exposed_name(plugin, &def.name), ..def }
}

/// The commands of a package as tools, with what they run. Programs on this machine's PATH are no part of what the
/// user agrees to.
pub fn command_tools(bundle: &Bundle) -> impl Iterator<Item = ToolDisclosure> {
    let program = bundle.program.name.as_str();
    bundle.manifest.tools.iter().map(move |tool| {
        if let Some(spec) = bundle.scripts(tool.name.as_str()) {
            let runs = vec![format!("runs: the scripts in {}", shell_words::join(&tool.command.value))];
            return ToolDisclosure { def: script::definition(&spec), runs };
        }
        let spec = command_spec(&bundle.manifest, program, tool);
        let spec = CommandSpec { required: Vec::new(), optional: Vec::new(), ..spec };
        let def = command::definition(&spec);
        let mut runs = vec![format!("runs: {}", shell_words::join(&spec.command))];
        let flags =
            tool.arguments.iter().filter_map(|argument| Some((&argument.name, argument.flag.as_ref()?)));
        runs.extend(flags.map(|(name, flag)| format!("with {flag} before `{name}`")));
        ToolDisclosure { def, runs }
    })
}
