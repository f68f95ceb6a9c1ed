//! The skill of an installed package, as it is offered to models. Returns only files that the user agreed to: each
//! read checks the file against its digest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Bundle;
use crate::agent_plugin::servers_of_head;
use crate::listing::{Listing, listed};
use haft_core::skill::{FILE, Shelved, Skill, SkillFiles, too_large};
use haft_core::tool::exposed_name;
use haft_manifest::{Manifest, McpServer};

/// A skill of a package.
#[derive(Clone, Debug, PartialEq)]
pub struct BundledSkill {
    /// The name and description.
    pub skill: Skill,
    /// The folder in the package; empty for the package's own folder.
    pub folder: String,
}

#[derive(Debug)]
struct PackagedSkill {
    /// The folder of the package.
    package: PathBuf,
    /// The skill's folder in the package.
    inside: String,
    /// The complete path of the skill's folder.
    folder: PathBuf,
    listing: Listing,
}

impl Bundle {
    /// Returns the package's skills with the files that a model may read.
    pub fn shelved_skills(&self) -> impl Iterator<Item = Shelved> {
        let origin = format!("package `{}`", self.program.name.as_str());
        self.skills.iter().map(move |BundledSkill { skill, folder: inside }| {
            let (package, listing) = (self.folder.clone(), self.listing.clone());
            let folder = package.join(inside).components().collect();
            let files = Arc::new(PackagedSkill { package, inside: inside.clone(), folder, listing });
            let (scripts, tools) = (self.script_tool(inside), self.tools_of(inside));
            Shelved { skill: skill.clone(), origin: origin.clone(), files, scripts, tools }
        })
    }

    /// Returns whether a model reads the file first of a skill.
    pub(crate) fn is_instruction(&self, path: &str) -> bool {
        self.skills.iter().any(|skill| listed(&skill.folder, FILE) == path)
    }

    /// Returns whether the file is a script of a plugin's skill, or may be run by a server of the plugin: any file
    /// may.
    pub(crate) fn is_script(&self, path: &str) -> bool {
        let is_named_so = || {
            let name = path.rsplit('/').next().unwrap_or_default();
            haft_sandbox::native::script::interpreter(name).is_some()
        };
        if self.directories().iter().any(Option::is_some) && is_named_so() {
            return true;
        }
        let skills = self.agent_plugin.iter().flat_map(|plugin| &plugin.skills);
        skills
            .into_iter()
            .any(|skill| skill.scripts.iter().any(|script| listed(&skill.folder, script) == path))
    }

    /// Returns the prefixes of the tools that belong to the skill in the folder `inside`.
    fn tools_of(&self, inside: &str) -> Vec<String> {
        let skills = self.agent_plugin.iter().flat_map(|plugin| &plugin.skills);
        let Some(own) = self.skills.iter().find(|skill| skill.folder == inside) else { return Vec::new() };
        let servers = self.skill_servers().filter(|(_, skill)| *skill == own.skill.name);
        let servers = servers.map(|(server, _)| exposed_name(&["mcp", server.name.as_str(), ""]));
        let places = skills.flat_map(|skill| skill.components.iter().map(|_| skill.folder.as_str()));
        let components = places.zip(&self.manifest.plugins).filter(|(folder, _)| *folder == inside);
        servers.chain(components.map(|(_, plugin)| format!("{}__", plugin.name.as_str()))).collect()
    }

    /// Returns the servers that skills name in their heads, each with the name of its skill.
    pub fn skill_servers(&self) -> impl Iterator<Item = (&McpServer, &str)> {
        let of_plugin = self.plugin_servers();
        let of_plugin = of_plugin.filter_map(|(own, server)| Some((server, own.skill.as_deref()?)));
        let of_package = self.manifest.mcp_servers.iter().filter(|server| server.skill.is_some());
        // A package in haft's own format has one skill.
        let skill = self.skills.first().map(|skill| skill.skill.name.as_str());
        of_plugin.chain(of_package.filter_map(move |server| Some((server, skill?))))
    }

    /// Returns a notice about the MCP servers in the head of SKILL.md that are left out, if there are any.
    pub fn ignored_servers(&self) -> Option<String> {
        (!self.head_faults.is_empty()).then(|| format!("in `{FILE}`: {}", self.head_faults.join("; ")))
    }

    fn script_tool(&self, inside: &str) -> Option<String> {
        let plugin = self.agent_plugin.as_ref()?;
        let skill = plugin.skills.iter().find(|skill| skill.folder == inside && !skill.scripts.is_empty())?;
        Some(haft_sandbox::native::command::exposed_name(self.program.name.as_str(), &skill.tool))
    }
}

/// Adds the servers in the head of the package's SKILL.md to those of its program.toml. Servers of program.toml take
/// precedence. Returns the faults of the head.
pub(super) fn put_servers(
    manifest: &mut Manifest,
    (text, skill): (&str, &Skill),
    (folder, listing): (&Path, &Listing),
) -> Vec<String> {
    let (servers, faults) = servers_of_head(text, &skill.name, &|path| listing.file(path).is_some());
    for server in servers {
        if !manifest.mcp_servers.iter().any(|own| own.name.value == server.name.value) {
            manifest.mcp_servers.push(McpServer { skill: Some(folder.to_owned()), ..server });
        }
    }
    faults
}

impl SkillFiles for PackagedSkill {
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        let path = listed(&self.inside, path);
        let path = path.as_str();
        if self.listing.file(path).is_none() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the package has no such file"));
        }
        let size = fs::symlink_metadata(self.package.join(path))?.len();
        if size > most {
            return Err(too_large(size, most));
        }
        self.listing.bytes(&self.package, path, most).map_err(io::Error::other)
    }

    fn list(&self, most: usize) -> io::Result<Vec<String>> {
        let before = listed(&self.inside, "");
        let own = self.listing.paths().filter_map(|path| path.strip_prefix(before.as_str()));
        Ok(own.take(most).map(str::to_owned).collect())
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }
}

#[cfg(test)]
mod tests {
    use haft_core::skill::MAX_FILE;

    use super::*;

    #[test]
    fn only_what_was_agreed_to_is_given() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("tree");
        fs::create_dir_all(folder.join("references")).unwrap();
        for (path, text) in
            [("SKILL.md", "Do."), ("references/how.md", "So."), ("large", &"x".repeat(300 << 10))]
        {
            fs::write(folder.join(path), text).unwrap();
        }
        fs::write(place.path().join("secret"), "x").unwrap();
        let (listing, _) = Listing::from_folder(&folder).unwrap();
        let (package, inside) = (folder.clone(), String::new());
        let skill = PackagedSkill { package, inside, folder: folder.clone(), listing };
        fs::write(folder.join("added"), "x").unwrap();
        assert_eq!(skill.list(9).unwrap(), ["SKILL.md", "large", "references/how.md"]);
        assert_eq!(skill.read("references/how.md", MAX_FILE).unwrap(), b"So.");
        fs::write(folder.join("references/how.md"), "No.").unwrap();
        for (path, why) in [
            ("references/how.md", "`references/how.md` was changed"),
            ("large", "it has 307200 bytes; the limit is 262144"),
            ("added", "the package has no such file"),
            ("../secret", "the package has no such file"),
        ] {
            assert_eq!(skill.read(path, MAX_FILE).unwrap_err().to_string(), why, "{path}");
        }
    }
}
