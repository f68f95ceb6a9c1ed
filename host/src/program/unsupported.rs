//! What program.toml may say and this version does not do. Where doing nothing would be less safe
//! than what was asked for, the tools concerned are left out; nothing is passed over in silence.

use super::Assembly;
use crate::manifest::Located;
use crate::report::Problem;

impl Assembly<'_> {
    /// Notes everything that is declared and not done.
    pub(super) fn unsupported(&mut self) {
        self.servers();
        self.plugin_extras();
        self.required_tools();
    }

    fn servers(&mut self) {
        for server in self.manifest.mcp_servers.iter().filter(|server| server.enabled) {
            let problem = Problem::new("MCP servers are not started yet").at(server.name.span, "this server");
            self.problems.push(problem.hint("`enabled = false` silences this"));
        }
    }

    fn plugin_extras(&mut self) {
        for plugin in self.manifest.plugins.iter().filter(|plugin| plugin.enabled) {
            if plugin.reuse.is_some() {
                let problem =
                    Problem::new("`[plugins.reuse]` has no effect yet: every call gets a fresh instance");
                self.problems.push(problem.at(plugin.name.span, "this plugin"));
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
