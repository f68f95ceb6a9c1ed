//! `haft run`: a model, the program's tools and one task.

use clap::Args;
use serde_json::json;

use super::terminal::Terminal;
use super::{Common, Exit};
use crate::agent::{Agent, AgentSettings, End, History, Outcome, route, with_skills};
use crate::manifest::ToolPattern;
use crate::program::{ModelChoice, Program};
use crate::tool::{Approvals, Session};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft run 'What does this folder contain?'
  haft run --base-url http://localhost:8080/v1 --model local 'Count the lines of README.md'")]
pub(super) struct Run {
    /// What to do
    prompt: String,
    /// The provider, in place of `[provider] name`
    #[arg(long)]
    provider: Option<String>,
    /// The model, in place of `[provider] model`; `fast`, `complex` and `auto` are the program's own
    #[arg(short, long)]
    model: Option<String>,
    /// Where the provider is, in place of `[provider] base_url`
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// How often the model is asked at most, in place of `[agent] max_turns`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: Option<u32>,
    /// Offer only tools with these names; `*` stands for any characters
    #[arg(long, value_name = "PATTERN")]
    tools: Vec<ToolPattern>,
}

impl Run {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let program = common.program(terminal, true).await?;
        let provider = program.provider(&self.choice()).await?;
        let approvals = Approvals::by(terminal.person());
        let session = Session { approvals, ..program.session(terminal.events()) };
        let mut settings = self.settings(&program);
        let routed = route(provider.as_ref(), program.route(&self.choice()), &self.prompt, &session).await;
        settings.model = Some(routed.model);
        let agent = Agent::new(provider, program.agent_tools(&self.tools), settings);
        let cancel = session.cancel.clone();
        let mut history = History::default();
        let mut work = std::pin::pin!(agent.run(&mut history, &self.prompt, &session));
        let outcome = tokio::select! {
            outcome = &mut work => outcome,
            _ = tokio::signal::ctrl_c() => {
                cancel.cancel();
                work.await
            }
        };
        program.close().await;
        let mut outcome = outcome?;
        outcome.usage += routed.usage;
        show(&outcome, terminal)?;
        Ok(exit(&outcome))
    }

    fn settings(&self, program: &Program) -> AgentSettings {
        let agent = &program.manifest.agent;
        let workspace = program.grant.workspace().map(crate::grant::Root::path);
        let mut settings = AgentSettings::for_workspace(workspace);
        if let Some(system) = &agent.system_prompt {
            settings.system.clone_from(system);
        }
        settings.system = with_skills(settings.system, &program.skills);
        settings.max_repeats = agent.max_repeats;
        settings.max_turns = self.max_turns.unwrap_or(agent.max_turns);
        settings
    }

    /// What the command line says about the model.
    fn choice(&self) -> ModelChoice {
        ModelChoice {
            provider: self.provider.clone(),
            model: self.model.clone(),
            base_url: self.base_url.clone(),
        }
    }
}

fn show(outcome: &Outcome, terminal: Terminal) -> anyhow::Result<()> {
    if terminal.json {
        return terminal.json(&json!({
            "text": outcome.text,
            "shortfall": outcome.shortfall(),
            "turns": outcome.turns,
            "model": outcome.model,
            "elapsed_ms": u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX),
            "input_tokens": outcome.usage.input,
            "output_tokens": outcome.usage.output,
            "cached_tokens": outcome.usage.cached,
            "cost_usd": outcome.usage.cost,
        }));
    }
    terminal.data(&outcome.text)?;
    if let Some(why) = outcome.shortfall() {
        terminal.say(format_args!("[{why}]"));
    }
    Ok(())
}

fn exit(outcome: &Outcome) -> Exit {
    match outcome.end {
        End::Final => Exit::Success,
        End::TurnCap => Exit::TurnCap,
        End::Cancelled => Exit::Interrupted,
        End::Length | End::Filtered | End::Refused => Exit::Tool,
    }
}
