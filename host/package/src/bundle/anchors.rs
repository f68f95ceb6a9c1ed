//! Plugins of other programs as bundles, and the placeholders of an installed one (§9.2): each is replaced once, and
//! the replacement is not expanded again.

use std::path::Path;

use super::{Bundle, BundleError, BundledSkill};
use crate::agent_plugin::{AgentPlugin, DATA, Directory, Form, PluginServer, PluginSkill, ROOT};
use crate::listing::Listing;
use haft_core::grant::RightsTable;
use haft_manifest::{GrantTable, McpServer, TextOrSecret, Transport};
use haft_sandbox::native::script::ScriptsSpec;

impl Bundle {
    pub(super) fn read_plugin(folder: &Path, listing: Listing) -> Result<Self, BundleError> {
        let plugin = AgentPlugin::read(folder, &listing)?;
        let manifest = super::placed(plugin.manifest().map_err(BundleError::Manifest)?, folder);
        let program = manifest.program.clone().ok_or(BundleError::NoProgram)?;
        let skill = |own: &PluginSkill| BundledSkill { skill: own.skill.clone(), folder: own.folder.clone() };
        Ok(Self {
            head_faults: Vec::new(),
            folder: folder.to_owned(),
            listing,
            own_name: program.name.value.clone(),
            skills: plugin.skills.iter().map(skill).collect(),
            manifest,
            program,
            agent_plugin: Some(plugin),
        })
    }

    /// Returns the specification of the tool that runs the scripts of a plugin's skills: one tool for each skill,
    /// by the name of its command.
    pub fn scripts(&self, tool: &str) -> Option<ScriptsSpec> {
        let plugin = self.agent_plugin.as_ref()?;
        let skill = plugin.skills.iter().find(|skill| skill.tool == tool)?;
        Some(ScriptsSpec {
            package: self.program.name.to_string(),
            tool: skill.tool.clone(),
            skill: skill.skill.name.clone(),
            folder: self.folder.join(&skill.folder),
            scripts: skill.scripts.clone(),
            table: RightsTable::None,
        })
    }

    /// Returns the package with the paths of its own folder and of its data directory `data` in the words and
    /// variables of its servers; unchanged unless the package is a plugin of another program.
    #[must_use]
    pub fn with_anchors(mut self, data: &Path) -> Self {
        let Some(form) = self.agent_plugin.as_ref().map(|plugin| plugin.form) else { return self };
        let (root, data) = (self.folder.to_string_lossy().into_owned(), data.to_string_lossy());
        let anchors = [(ROOT, &*root), (DATA, &*data)];
        // The names in the format of Claude Code.
        let claude = [("CLAUDE_PLUGIN_ROOT", &*root), ("CLAUDE_PLUGIN_DATA", &*data)];
        let variables = anchors.iter().chain(claude.iter().filter(|_| form == Form::Claude));
        for server in &mut self.manifest.mcp_servers {
            let Transport::Stdio { command, env } = &mut server.transport else { continue };
            for word in command.value.iter_mut().skip(1) {
                *word = expanded(word, &anchors);
            }
            for (_, value) in env.iter_mut() {
                if let TextOrSecret::Text(text) = value {
                    *text = expanded(text, &anchors);
                }
            }
            // Appended after the configured variables (§9.1).
            for &(name, path) in variables.clone() {
                env.retain(|(known, _)| known != name);
                env.push((name.to_owned(), TextOrSecret::Text(path.to_owned())));
            }
        }
        self
    }

    /// Returns the requests of a plugin's servers and of its skills' scripts, with their names.
    pub fn process_grants(&self) -> impl Iterator<Item = (&str, &GrantTable)> {
        let manifest = Some(&self.manifest).filter(|_| self.agent_plugin.is_some());
        manifest.into_iter().flat_map(|manifest| {
            let servers = manifest.mcp_servers.iter().map(|server| (server.name.as_str(), &server.grant));
            let scripts = manifest.tools.iter().map(|tool| (tool.name.as_str(), &tool.grant));
            servers.chain(scripts).filter_map(|(name, grant)| Some((name, &grant.as_ref()?.rights)))
        })
    }

    /// Reports whether a plugin's author proposes no rights at all: its processes then get the package's grant.
    pub fn takes_any_grant(&self) -> bool {
        let plugin = self.agent_plugin.as_ref();
        plugin.is_some_and(|plugin| {
            let servers = plugin.servers.iter().map(|server| &server.proposed);
            servers.chain(plugin.skills.iter().map(|skill| &skill.proposed)).any(Option::is_none)
        })
    }

    /// Returns the processes of a plugin that get all rights granted to the package, because the author proposes
    /// none.
    pub(super) fn open_parts(&self) -> impl Iterator<Item = &str> {
        let (plugin, servers) = (self.agent_plugin.as_ref(), self.plugin_servers());
        // haft itself asks a server that is elsewhere.
        let servers = servers.filter(|(own, _)| own.proposed.is_none() && own.start.directory().is_some());
        let skills = plugin.into_iter().flat_map(|plugin| &plugin.skills);
        let skills = skills.filter(|skill| skill.proposed.is_none() && !skill.scripts.is_empty());
        servers.map(|(_, server)| server.name.as_str()).chain(skills.map(|skill| skill.tool.as_str()))
    }

    /// Returns the servers of a plugin with their entries in the manifest; nothing of any other package.
    pub fn plugin_servers(&self) -> impl Iterator<Item = (&PluginServer, &McpServer)> {
        self.agent_plugin.iter().flat_map(|plugin| &plugin.servers).zip(&self.manifest.mcp_servers)
    }

    /// Returns the working directory of each server of a plugin, in the order of the manifest; empty for any
    /// other package.
    pub fn directories(&self) -> Vec<Option<&Directory>> {
        let servers = self.agent_plugin.iter().flat_map(|plugin| &plugin.servers);
        servers.map(|server| server.start.directory()).collect()
    }
}

/// Returns `text` with the value of each anchor instead of `${NAME}`.
fn expanded(text: &str, anchors: &[(&str, impl AsRef<str>)]) -> String {
    let (mut whole, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        whole.push_str(before);
        let found = anchors
            .iter()
            .find_map(|(name, value)| Some((value.as_ref(), after.strip_prefix(name)?.strip_prefix('}')?)));
        let (value, after) = found.unwrap_or(("${", after));
        whole.push_str(value);
        rest = after;
    }
    whole + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// §9.2: both placeholders are replaced, once, and nothing else.
    #[test]
    fn a_placeholder_is_replaced_once() {
        let anchors = [(ROOT, "/a/${PLUGIN_DATA}"), (DATA, "/d")];
        for (text, expected) in [
            ("${PLUGIN_ROOT}/x:${PLUGIN_DATA}", "/a/${PLUGIN_DATA}/x:/d"),
            (
                "${HOME} $PLUGIN_ROOT ${plugin_root} ${PLUGIN_ROOT",
                "${HOME} $PLUGIN_ROOT ${plugin_root} ${PLUGIN_ROOT",
            ),
            ("${${PLUGIN_DATA}}", "${/d}"),
            ("", ""),
        ] {
            assert_eq!(expanded(text, &anchors), expected, "{text}");
        }
    }
}
