//! What program.toml may say and this version does not do. Where doing nothing would be less safe
//! than what was asked for, the tools concerned are left out; nothing is passed over in silence.

use super::Assembly;
use super::packages::Installed;
use crate::manifest::Located;
use crate::report::Problem;

impl Assembly<'_> {
    /// Notes everything that is declared and not done.
    pub(super) fn unsupported(&mut self, installed: &[Installed<'_>]) {
        self.servers();
        self.package_servers(installed);
        self.required_tools();
    }

    fn servers(&mut self) {
        for server in self.manifest.mcp_servers.iter().filter(|server| server.enabled) {
            let problem = Problem::new("MCP servers are not started yet").at(server.name.span, "this server");
            self.problems.push(problem.hint("`enabled = false` silences this"));
        }
    }

    fn package_servers(&mut self, installed: &[Installed<'_>]) {
        for Installed { declared, bundle } in installed {
            for server in bundle.manifest.mcp_servers.iter().filter(|server| server.enabled) {
                let (server, package) = (server.name.as_str(), declared.name.as_str());
                self.left_out(declared, format!("MCP server `{server}` of `{package}` is not started yet"));
            }
        }
    }

    /// `[requires_tools]` that are not there.
    fn required_tools(&mut self) {
        let missing = |name: &&Located<String>| self.toolbox.find(&name.value).is_none();
        let problem = |name: &Located<String>| {
            Problem::new(format!("the program requires the tool `{}`, which it does not have", name.value))
                .at(name.span, "this tool")
        };
        let problems: Vec<_> = self.manifest.required_tools.iter().filter(missing).map(problem).collect();
        self.problems.extend(problems);
    }
}
