//! The hooks of a program: plugins with `hooks` in their tables, and the tools whose calls they see. A hook that
//! cannot be loaded refuses every such call.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::PendingPlugin;
use crate::program::Program;
use crate::program::chosen_tools::Watching;
use crate::program::contribution::Contribution;
use haft_core::call::ToolResult;
use haft_core::report::Problem;
use haft_core::tool::{Hook, Objection, Seen};
use haft_manifest::{Located, Plugin as Declared, ToolPattern};
use haft_plugin_host::{Contract, Plugin, PluginHook};

/// A hook of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramHook<'p> {
    /// The plugin's name.
    pub name: &'p str,
    /// The number of tools whose calls the hook sees.
    pub tools: usize,
    /// Whether the hook is unavailable: the calls of these tools are refused.
    pub is_absent: bool,
}

impl Program {
    /// Returns the hooks of the program, in the order of program.toml.
    pub fn hooks(&self) -> impl Iterator<Item = ProgramHook<'_>> {
        self.hooks.iter().map(|watching| ProgramHook {
            name: watching.hook.name(),
            tools: self.toolbox.entries().filter(|entry| watching.sees(&entry.def().name)).count(),
            is_absent: watching.is_absent,
        })
    }

    /// Returns the names of the hooks that see the calls of `tool`.
    pub fn hooks_of(&self, tool: &str) -> impl Iterator<Item = &str> {
        self.hooks.iter().filter(move |watching| watching.sees(tool)).map(|watching| watching.hook.name())
    }
}

impl std::fmt::Display for ProgramHook<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.tools == 1 { "tool" } else { "tools" };
        if self.is_absent {
            write!(f, "is not available: the calls of {} {what} are refused", self.tools)
        } else {
            write!(f, "sees the calls of {} {what}", self.tools)
        }
    }
}

/// A hook that is unavailable.
struct Absent {
    name: String,
    why: String,
}

#[async_trait]
impl Hook for Absent {
    fn name(&self) -> &str {
        &self.name
    }

    async fn before(&self, _: &Seen<'_>) -> Result<(), Objection> {
        Err(Objection::Failed(self.why.clone()))
    }

    async fn after(&self, _: &Seen<'_>, _: &ToolResult, _: Duration) -> Result<(), String> {
        Ok(())
    }
}

/// Returns the tools whose calls a declared plugin sees, if it is a hook.
fn seen_by(declared: &Declared) -> Option<Vec<ToolPattern>> {
    let seen =
        |hooks: &Vec<Located<ToolPattern>>| hooks.iter().map(|pattern| pattern.value.clone()).collect();
    declared.hooks.as_ref().map(seen)
}

/// Returns a hook that refuses every call of the unavailable hook's tools; `None` if the plugin is not a hook.
pub(super) fn absent(declared: &Declared, why: &str) -> Option<Watching> {
    let (name, why) = (declared.name.as_str().to_owned(), why.to_owned());
    seen_by(declared).map(|tools| Watching { tools, hook: Arc::new(Absent { name, why }), is_absent: true })
}

/// Returns the contribution of a hook, whose functions are not tools; `None` for any other plugin.
pub(super) fn contribution(pending: &PendingPlugin<'_>, plugin: &Plugin) -> Option<Contribution> {
    let (declared, name, mut found) = (pending.declared?, &pending.name, Contribution::default());
    let is_hook = plugin.contract() == Contract::Hook;
    let span = pending.span().unwrap_or(declared.name.span);
    match (seen_by(declared).filter(|_| pending.package.is_none()), pending.package) {
        (None, _) if !is_hook => return None,
        (_, Some(package)) => {
            let text = format!("plugin `{name}` of a package is a hook; only a program may have hooks");
            found.problems.push(Problem::new(text).at(package.name.span, "this package"));
        }
        (None, None) => {
            let problem = Problem::new(format!("plugin `{name}` is a hook without calls"));
            let problem = problem.at(span, "this component");
            found.problems.push(problem.hint("set `hooks = [\"*\"]` in its table to let it see every call"));
        }
        (Some(tools), None) => {
            if let Some(hook) = PluginHook::new(plugin, name, pending.grant.clone(), pending.limits) {
                found.hooks.push(Watching { tools, hook: Arc::new(hook), is_absent: false });
            } else {
                let why = "it exports no `haft:plugin/hooks`";
                let problem = Problem::new(format!("plugin `{name}` cannot be a hook: {why}"));
                let problem = problem.at(span, "this component");
                found.problems.push(problem.hint("remove `hooks` from its table"));
                found.hooks.extend(absent(declared, why));
            }
        }
    }
    Some(found)
}
