//! What the command line says about the model that is asked and the tools that it may use.

use clap::Args;

use super::terminal::Terminal;
use crate::program::{ModelChoice, Program};
use haft_agent::AgentSettings;
use haft_core::manifest::ToolPattern;
use haft_core::tool::Toolbox;

/// Which model is asked, and what it may use.
#[derive(Clone, Debug, Args)]
pub(super) struct ModelArgs {
    /// The provider, in place of `[provider] name`
    #[arg(long)]
    provider: Option<String>,
    /// The model, in place of `[provider] model`; `fast`, `complex` and `auto` are the program's own
    #[arg(short, long)]
    pub(super) model: Option<String>,
    /// Where the provider is, in place of `[provider] base_url`
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// How often the model is asked at most, in place of `[agent] max_turns`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: Option<u32>,
    /// Offer only tools with these names, in place of `[agent] tools`; `*` stands for any characters
    #[arg(long, value_name = "PATTERN")]
    tools: Vec<ToolPattern>,
}

impl ModelArgs {
    /// How an agent with `tools` goes about it.
    pub(super) fn settings(&self, program: &Program, tools: &Toolbox) -> AgentSettings {
        let agent = &program.manifest.agent;
        let mut settings = AgentSettings { system: program.system_prompt(tools), ..AgentSettings::default() };
        settings.max_repeats = agent.max_repeats;
        settings.history_budget = Some(agent.history_budget);
        settings.summarise = agent.summarise;
        settings.max_turns = self.max_turns.unwrap_or(agent.max_turns);
        settings
    }

    /// The tools that the agent is offered. A name that no tool has is refused.
    pub(super) fn tools(&self, program: &Program, terminal: Terminal) -> anyhow::Result<Toolbox> {
        Ok(program.chosen_tools(&self.tools, |text| terminal.warning(text))?)
    }

    /// What the command line says about the model.
    pub(super) fn model(&self) -> ModelChoice {
        ModelChoice {
            provider: self.provider.clone(),
            model: self.model.clone(),
            base_url: self.base_url.clone(),
        }
    }
}
