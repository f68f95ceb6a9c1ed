//! The context of an installation: the directories of this machine, an engine that lists a component's tools, and
//! the rights of the program's commands. Loads none of the program's tools.

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

/// The resources for fetching, listing and storing packages before they are a part of a program.
#[derive(Debug)]
pub struct InstallContext {
    /// The directories of this machine.
    pub dirs: Dirs,
    /// The store of installed content.
    pub store: Store,
    /// The credentials for registries, from the configuration of docker and podman of this user.
    pub access: Access,
    /// The trust root of keyless signatures: the user's own file, or the trust root that Sigstore publishes.
    pub root: TrustRoot,
    /// Receives the progress of downloads; no receiver by default.
    pub progress: Progress,
    /// The rights of `bash` and commands of the program.
    pub sandbox: Grant,
    /// The rights of programs that fetch and build packages.
    pub fetch_grants: FetchGrants,
    /// Confines `bash`, commands, and programs that fetch and build.
    pub confiner: Confiner,
    options: Options,
    declared: Vec<Grant>,
    engine: OnceLock<Engine>,
}

impl InstallContext {
    /// Returns the context of installations into the program `manifest`.
    pub fn new(options: &Options, manifest: &Manifest) -> anyhow::Result<Self> {
        let dirs = Dirs::of_this_machine()?;
        let mut grants = Grants::new(manifest, &dirs, &options.allow)?;
        let sandbox = grants.sandbox(None)?.tools;
        let declared = grants.plugins(&sandbox)?;
        let credentials = CredentialFiles::from_environment(&dirs.home);
        Ok(Self {
            store: Store::new(&dirs.store),
            access: Access { credentials, programs: HostPrograms::of(&sandbox), ..Access::default() },
            root: TrustRoot::in_folder(&dirs.config),
            progress: Progress::default(),
            fetch_grants: grants::fetch(manifest, &dirs, &options.allow)?,
            confiner: options.confiner.clone().unwrap_or_default(),
            options: options.clone(),
            engine: OnceLock::new(),
            dirs,
            sandbox,
            declared,
        })
    }

    /// Returns the installer for `project`. Components that list tools run without rights.
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

    /// Returns the engine that runs components without rights to list their tools. Creates the engine at the first
    /// use, because most operations on packages run nothing.
    pub fn engine(&self) -> anyhow::Result<&Engine> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let grants = std::iter::once(&self.sandbox).chain(&self.declared);
        let made = rights::engine(&self.options, &self.dirs, &self.confiner, grants)?;
        Ok(self.engine.get_or_init(|| made))
    }
}

// The listing of tools of packages before their installation. Components run without rights; commands are read from
// the package's program.toml.

/// Maximum memory of a component while it lists its tools, regardless of its request.
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

/// Returns the tools of a plugin as models see them: with exposed names, and the descriptions in the package's
/// program.toml.
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

/// Returns the commands of a package as tools, with the files that they run. Programs on this machine's PATH are
/// not a part of the user's agreement.
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
