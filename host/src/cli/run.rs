//! `haft run`: a model, the program's tools and one task.

use std::sync::Arc;

use clap::Args;
use secrecy::SecretString;
use serde_json::json;

use super::terminal::Terminal;
use super::{Common, Exit};
use crate::agent::{Agent, AgentSettings, End, History, Outcome, with_skills};
use crate::manifest::{self, TextOrSecret, ToolPattern};
use crate::program::Program;
use crate::provider::{self, PROVIDERS, Provider, ProviderSettings};
use crate::secret::{SecretError, Secrets};
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
    /// The model, in place of `[provider] model`
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
        let provider = self.provider(&program).await?;
        let agent = Agent::new(provider, program.agent_tools(&self.tools), self.settings(&program));
        let approvals = Approvals::by(terminal.person());
        let session = Session { approvals, ..program.session(terminal.events()) };
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
        let outcome = outcome?;
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

    /// The provider of program.toml with what the command line says in its place.
    async fn provider(&self, program: &Program) -> anyhow::Result<Arc<dyn Provider>> {
        let mut settings = match &program.manifest.provider {
            Some(provider) => settings(provider, program.secrets()).await?,
            None => ProviderSettings::new("openai", String::new()),
        };
        if let Some(kind) = &self.provider {
            settings.kind.clone_from(kind);
        }
        if let Some(model) = &self.model {
            settings.model.clone_from(model);
        }
        if self.base_url.is_some() {
            settings.base_url.clone_from(&self.base_url);
        }
        if settings.model.is_empty() {
            anyhow::bail!(
                "no model: name one with `--model`, or write `[provider]` with `model = \"…\"` to program.toml"
            );
        }
        if settings.api_key.is_none() {
            settings.api_key = usual_key(&settings.kind);
        }
        Ok(provider::build(settings)?)
    }
}

/// The key where the vendor's own tools look for it.
fn usual_key(kind: &str) -> Option<SecretString> {
    let kind = PROVIDERS.iter().find(|known| known.name == kind)?;
    std::env::var(kind.key_variable).ok().filter(|key| !key.is_empty()).map(SecretString::from)
}

async fn settings(
    provider: &manifest::Provider,
    secrets: Secrets<'_>,
) -> Result<ProviderSettings, SecretError> {
    let model = provider.model_complex.as_ref().or(provider.model.as_ref());
    let mut settings =
        ProviderSettings::new(provider.name.value.as_str(), model.cloned().unwrap_or_default());
    settings.base_url = provider.base_url.as_ref().map(|url| url.value.clone());
    if let Some(source) = &provider.api_key {
        settings.api_key = Some(secrets.read(source).await?);
    }
    settings.timeouts.connect = provider.connect_timeout;
    settings.timeouts.total = provider.timeout;
    settings.retry.attempts = provider.max_retries.saturating_add(1);
    settings.extra.clone_from(&provider.extra_body);
    if let Some(most) = provider.max_tokens {
        // OpenAI itself renamed the key; whatever else speaks its format knows the old name.
        let key = if settings.base_url.is_some() { "max_tokens" } else { "max_completion_tokens" };
        settings.extra.entry(key).or_insert(most.into());
    }
    for (name, value) in &provider.headers {
        let value = match value {
            TextOrSecret::Text(text) => SecretString::from(text.clone()),
            TextOrSecret::Secret(source) => secrets.read(source).await?,
        };
        settings.headers.push((name.clone(), value));
    }
    Ok(settings)
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
