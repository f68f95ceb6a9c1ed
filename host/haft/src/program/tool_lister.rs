//! Lists the tools of packages that are not installed yet: components run with no rights, commands are read from the
//! package's program.toml.

use anyhow::Context;
use async_trait::async_trait;

use super::{InstallContext, command_spec, described};
use haft_core::call::ToolDef;
use haft_core::limit::Limits;
use haft_package::disclosure::ToolDisclosure;
use haft_package::{Bundle, Kind, Offered, OfferedPlugin, Pin, ToolLister};
use haft_plugin_host::{Plugin, PluginOffer, Source};
use haft_sandbox::native::command::{self, CommandSpec};

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
/// the package's program.toml puts in the place of their own.
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
