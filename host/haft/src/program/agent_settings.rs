//! How the agent of a program goes about it, as program.toml says. Knows nothing of the command line.

use super::Program;
use haft_agent::provider::Cost;
use haft_agent::{AgentSettings, Budget};
use haft_core::tool::Toolbox;
use haft_manifest::Agent;

impl Program {
    /// What `[agent]` says, with what an agent that has `tools` is told.
    pub fn agent_settings(&self, tools: &Toolbox) -> AgentSettings {
        AgentSettings { system: self.system_prompt(tools), ..of(&self.manifest.agent) }
    }
}

/// What `agent` says, but for what its model is told.
pub(super) fn of(agent: &Agent) -> AgentSettings {
    AgentSettings {
        max_turns: agent.max_turns,
        max_repeats: agent.max_repeats,
        history_budget: Some(agent.history_budget),
        summarise: agent.summarise,
        budget: Budget {
            cost: agent.max_cost.map(Cost::of_dollars),
            tokens: agent.max_tokens_total.map(u64::from),
        },
        ..AgentSettings::default()
    }
}
