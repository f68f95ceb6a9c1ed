//! The rights of an MCP server that was installed from npm, PyPI or a bundle: those of `[packages.grant]`, its own
//! files, the paths that any process needs to run, and a private directory. These formats request no rights, so
//! nothing else limits them.

use super::{Process, ProcessRights, Processes, needed, program};
use crate::program::grants::{Grants, root};
use haft_core::grant::{Grant, RightsTable};
use haft_manifest::{McpServer, Package};
use haft_package::Bundle;

impl Grants<'_> {
    /// Returns the rights of the servers of `bundle`, which the program has as `declared`.
    pub(super) fn foreign(
        &mut self,
        (declared, bundle): (&Package, &Bundle),
        sandbox: &Grant,
    ) -> anyhow::Result<Processes> {
        let granted = self.table_of_process(&declared.grant)?;
        let (granted, _) = self.denied(granted, &self.manifest.sandbox.deny)?;
        let granted = sandbox.base().cloned().into_iter().fold(granted.of_process(), Grant::with_workspace);
        let (folder, manifest) = (root(&bundle.folder)?, &bundle.manifest);
        let rights = |server: &McpServer| -> anyhow::Result<ProcessRights> {
            let process = Process::server(manifest, server);
            // Not the paths among its arguments: `--set arg=DIR` is a setting, not a grant.
            let needs = needed(program(&process, self.dirs).as_slice(), &bundle.folder, self.dirs);
            let needs = needs.into_iter().filter(|path| path.exists()).map(|path| root(&path));
            let grant = self.of_child(granted.clone(), needs.collect::<anyhow::Result<_>>()?);
            let name = declared.name.as_str().to_owned();
            let table = RightsTable::Entry { list: "packages", name, usual: None };
            let private = self.private(&process, sandbox)?;
            Ok(ProcessRights { grant: grant.with_read(folder.clone()), table, private })
        };
        let servers = manifest.mcp_servers.iter().map(rights).collect::<anyhow::Result<_>>()?;
        Ok(Processes { servers, commands: Vec::new() })
    }
}
