//! The rights of the processes of another program's plugin: each server, and the scripts of each skill, has the
//! rights that its author proposed and the program grants to the package. Each process reads the plugin's files and
//! the paths that any process needs to run; the servers store data in one directory of the plugin.

use std::path::{Path, PathBuf};

use super::{Process, ProcessRights, Processes};
use crate::program::grants::{Grants, root};
use haft_core::grant::{Grant, RightsTable, Root};
use haft_manifest::{GrantTable, Package};
use haft_package::Bundle;
use haft_package::agent_plugin::Directory;
use haft_sandbox::process::private;

/// Default size in bytes of a plugin's data (`PLUGIN_DATA`): the packages of a small project.
const KEPT: u64 = 256 << 20;

impl Grants<'_> {
    /// Returns the rights of the processes of the plugin `bundle`, which the program has as `declared`.
    pub(super) fn agent_plugin(
        &mut self,
        (declared, bundle): (&Package, &Bundle),
        sandbox: &Grant,
    ) -> anyhow::Result<Processes> {
        let granted = self.table(&declared.grant, true)?;
        let of = Plugin {
            declared,
            bundle,
            granted,
            own: self.dirs.of_plugin(self.base(), declared.name.as_str()),
        };
        let (servers, commands) = (self.plugin_servers(&of)?, self.plugin_scripts(&of, sandbox)?);
        Ok(Processes { servers, commands })
    }

    fn plugin_servers(&mut self, of: &Plugin<'_>) -> anyhow::Result<Vec<ProcessRights>> {
        let (manifest, data) = (&of.bundle.manifest, private::data(&of.own)?);
        let proposed = of.bundle.agent_plugin.iter().flat_map(|plugin| &plugin.servers);
        let servers = manifest.mcp_servers.iter().zip(proposed).zip(of.bundle.directories());
        let mut all = Vec::new();
        for ((server, proposed), directory) in servers {
            // haft itself asks a server that is elsewhere, and no process.
            let Some(directory) = directory else {
                let grant = Grant::none().with_network(true);
                all.push(ProcessRights { grant, table: RightsTable::None, private: None });
                continue;
            };
            let process = Process::server(manifest, server);
            let grant = self.of_part(&process, proposed.proposed.is_some(), of)?;
            let kept = grant.state().unwrap_or(KEPT);
            let grant =
                grant.with_workspace(directory_of(directory, &of.bundle.folder, &data)?).with_state(kept);
            let table = of.table(proposed.proposed.is_some());
            all.push(ProcessRights { grant, table, private: Some(root(&of.own)?) });
        }
        Ok(all)
    }

    fn plugin_scripts(&mut self, of: &Plugin<'_>, sandbox: &Grant) -> anyhow::Result<Vec<ProcessRights>> {
        let manifest = &of.bundle.manifest;
        let mut all = Vec::new();
        for tool in &manifest.tools {
            let process = Process::command(manifest, tool);
            let mut skills = of.bundle.agent_plugin.iter().flat_map(|plugin| &plugin.skills);
            let skill = skills.find(|skill| skill.tool == tool.name.as_str());
            let is_proposed = skill.is_some_and(|skill| skill.proposed.is_some());
            let grant = self.of_part(&process, is_proposed, of)?;
            let grant = sandbox.base().cloned().into_iter().fold(grant, Grant::with_workspace);
            let private = self.private(&process, sandbox)?;
            all.push(ProcessRights { grant, table: of.table(is_proposed), private });
        }
        Ok(all)
    }

    /// Returns the rights of one process: the proposed and granted ones, or without a proposal the granted ones.
    fn of_part(
        &mut self,
        process: &Process<'_>,
        is_proposed: bool,
        of: &Plugin<'_>,
    ) -> anyhow::Result<Grant> {
        let empty = GrantTable::default();
        let asked = process.grant.map_or(&empty, |grant| &grant.rights);
        let grant = if is_proposed {
            self.asked_of(of.declared, (process.name, asked)).intersect(&of.granted)
        } else {
            of.granted.clone()
        };
        let (grant, _) = self.denied(grant, &self.manifest.sandbox.deny)?;
        self.of_bundle(process, grant.of_process(), of.bundle)
    }
}

/// An installed plugin.
struct Plugin<'a> {
    declared: &'a Package,
    bundle: &'a Bundle,
    /// The rights that program.toml grants.
    granted: Grant,
    /// The private directory of its servers.
    own: PathBuf,
}

impl Plugin<'_> {
    /// Returns the place that can widen a part's rights: program.toml, unless the plugin's author proposed other
    /// rights.
    fn table(&self, is_proposed: bool) -> RightsTable {
        let name = self.declared.name.as_str().to_owned();
        if is_proposed {
            RightsTable::None
        } else {
            RightsTable::Entry { list: "packages", name, usual: None }
        }
    }
}

/// Returns the working directory of a server, which stays where it is declared.
fn directory_of(directory: &Directory, folder: &Path, data: &Path) -> anyhow::Result<Root> {
    let (anchor, path) = match directory {
        Directory::Root(path) => (folder, folder.join(path)),
        Directory::Data(path) => (data, data.join(path)),
    };
    let (anchor, found) = (root(anchor)?, root(&path)?);
    // A link that the plugin made in its own data leads nowhere else.
    Ok(if anchor.contains(&found) { found } else { anchor })
}
