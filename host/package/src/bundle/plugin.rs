//! Parses plugins of other programs as bundles.

use std::path::Path;

use super::{Bundle, BundleError, BundledSkill};
use crate::agent_plugin::{AgentPlugin, PluginSkill};
use crate::inventory::MANIFEST;
use crate::listing::Listing;
use haft_core::grant::RightsTable;
use haft_manifest::{self as manifest, Manifest};
use haft_sandbox::native::script::ScriptsSpec;

impl Bundle {
    /// Reads the plugin of other programs in `folder`.
    pub(super) fn read_plugin(folder: &Path, listing: Listing) -> Result<Self, BundleError> {
        let plugin = AgentPlugin::read(folder, &listing)?;
        let manifest = plugin.manifest().map_err(BundleError::Manifest)?;
        let path = folder.join(MANIFEST);
        let home = manifest::folder_of(&path).unwrap_or_else(|_| folder.to_owned());
        let manifest = Manifest { path, folder: home, ..manifest };
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
}
