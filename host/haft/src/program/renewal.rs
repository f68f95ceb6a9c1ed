//! Updates the tools of MCP servers while an agent runs: the server's current tools get the rights of its
//! earlier tools.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::chosen_tools::{self, Watching};
use super::patterns::select;
use super::server_set::Tracked;
use super::{Program, guidance};
use haft_agent::ToolNews;
use haft_core::sync::Lock;
use haft_core::tool::{Rules, Tool, Toolbox};
use haft_manifest::ToolPattern;
use haft_mcp::client::{Server, ServerTool, exposed, owns};
use haft_mcp::pins::reason;

/// Updates the tools of an agent.
pub struct Renewal {
    /// All tools of the program.
    all: Toolbox,
    /// The agent's current tools.
    chosen: Lock<Toolbox>,
    servers: Vec<Watched>,
    rules: Rules,
    hooks: Vec<Watching>,
    /// The patterns of the agent's tools; `None` for all tools.
    patterns: Option<Vec<ToolPattern>>,
    budget: Option<u32>,
    is_planning: bool,
}

struct Watched {
    server: Arc<Server>,
    changes: Lock<watch::Receiver<u64>>,
    /// The patterns of the server's tools in program.toml; `None` for all tools.
    patterns: Option<Vec<ToolPattern>>,
}

impl Program {
    /// Returns the updates for an agent whose initial tools are `chosen`, selected by `patterns` or
    /// `[agent] tools`.
    pub fn news(&self, chosen: &Toolbox, patterns: &[ToolPattern], is_planning: bool) -> Renewal {
        Renewal {
            all: self.toolbox.clone(),
            chosen: Lock::new(chosen.clone()),
            servers: self.servers.0.iter().filter_map(|own| self.watched(own)).collect(),
            rules: chosen_tools::rules(&self.manifest, &self.dirs.home),
            hooks: self.hooks.clone(),
            patterns: self.named(patterns).map(guidance::and_read_skill),
            budget: self.manifest.agent.tool_budget,
            is_planning,
        }
    }

    /// Returns a server of the program itself with the patterns of its tools; `None` for a server of a package,
    /// whose tools were agreed to and do not change.
    fn watched(&self, Tracked { server, changes }: &Tracked) -> Option<Watched> {
        let name = &server.config().name;
        let declared = self.manifest.mcp_servers.iter().find(|own| own.name.as_str() == name)?;
        Some(Watched {
            server: server.clone(),
            changes: Lock::new(changes.clone()),
            patterns: declared.tools.clone(),
        })
    }
}

impl Renewal {
    /// Returns `toolbox` with the current tools of `watched`.
    fn renewed(&self, toolbox: &Toolbox, watched: &Watched) -> Option<Toolbox> {
        let name = watched.server.config().name.as_str();
        let is_own = |tool: &str| owns(name, tool);
        let like = self.all.entries().find(|entry| is_own(&entry.def().name))?;
        let (listed, _) = watched.server.remembered()?;
        let is_offered = |own: &str| {
            select(watched.patterns.as_deref(), own) && select(self.patterns.as_deref(), &exposed(name, own))
        };
        let tools = listed.tools.iter().filter(|tool| is_offered(&tool.name));
        let tools =
            tools.map(|tool| Arc::new(ServerTool::new(&watched.server, &listed, tool)) as Arc<dyn Tool>);
        let held = listed.differences.iter().filter(|one| one.holds() && is_offered(one.tool()));
        let held: Vec<_> = held.map(|one| (exposed(name, one.tool()), reason(name, one))).collect();
        for (_, why) in held.iter().filter(|(tool, why)| toolbox.withheld(tool) != Some(why.as_str())) {
            tracing::warn!("{why}");
        }
        Some(toolbox.replacing(is_own, like, tools.collect(), held))
    }
}

#[async_trait]
impl ToolNews for Renewal {
    async fn renewed(&self) -> Option<Toolbox> {
        for watched in &self.servers {
            watched.server.settle().await;
        }
        let has_changed = |watched: &&Watched| {
            let mut changes = watched.changes.lock();
            let has_changed = changes.has_changed().unwrap_or(false);
            changes.mark_unchanged();
            has_changed
        };
        let changed: Vec<_> = self.servers.iter().filter(has_changed).collect();
        if changed.is_empty() {
            return None;
        }
        let chosen = self.chosen.lock().clone();
        let chosen =
            changed.into_iter().fold(chosen, |tools, watched| self.renewed(&tools, watched).unwrap_or(tools));
        let chosen = chosen_tools::hooked(&chosen.ruled(&self.rules), &self.hooks);
        let chosen = self.budget.map_or_else(|| chosen.clone(), |budget| chosen.within(budget));
        *self.chosen.lock() = chosen.clone();
        Some(if self.is_planning { chosen.planning() } else { chosen })
    }
}
