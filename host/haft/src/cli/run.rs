//! `haft run`: a model, the program's tools and one task. Standard output is the answer alone.

use crate::cli::common::Common;
use std::io::Read;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::Exit;
use super::terminal::{Hinted, Screen, Show, Terminal};
use crate::cli::conversation::{Conversation, SessionName};
use crate::program::{ModelChoice, Program};
use haft_agent::{AgentSettings, End, Outcome, with_skills};
use haft_core::manifest::ToolPattern;
use haft_core::tool::Toolbox;

#[derive(Debug, Args)]
#[command(after_help = "\
The session is kept, and goes on after whatever ended it:
  haft run 'Find out why the build is slow'
  haft run --resume                        what was left of the last task here
  haft run --resume last 'And now mend it'
  haft run --resume 3f9ac801 'What did you find?'

Ctrl-C stops the task and keeps what was done; a second one leaves at once.

More examples:
  haft run --base-url http://localhost:8080/v1 --model local 'Count the lines of README.md'
  git diff | haft run -                    the task from standard input
  haft run --json 'What is here?' | jq -r 'select(.event == \"completed\") | .call.tool'")]
pub(super) struct Run {
    /// What to do; `-` reads it from standard input. May be left out with `--resume`
    #[arg(required_unless_present = "resume")]
    prompt: Option<String>,
    /// Go on with a session: its id or the beginning of it, or `last`, the newest of this program in this folder
    #[arg(short, long, value_name = "ID", num_args = 0..=1, default_missing_value = "last")]
    resume: Option<SessionName>,
    /// Say nothing but the answer
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    choice: ModelArgs,
}

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

/// Bytes of a prompt from standard input: more than any model reads.
const MAX_PROMPT: u64 = 16 << 20;

impl Run {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let show = match (terminal.json, self.quiet) {
            (true, _) => Show::Json,
            (false, true) => Show::Quiet,
            (false, false) => Show::All,
        };
        let prompt = self.prompt.as_deref().map(prompt).transpose()?;
        let screen = Screen::new(terminal, show);
        let mut talk =
            Conversation::begin(common, terminal, &screen, self.choice, self.resume.as_ref()).await?;
        let outcome = talk.task(prompt.as_deref()).await;
        let id = talk.id();
        talk.close().await;
        let Some(outcome) = outcome? else { return Ok(Exit::Interrupted) };
        tell(&outcome, id.as_deref(), &screen, terminal)?;
        Ok(exit(&outcome))
    }
}

/// The prompt, wherever it is.
fn prompt(text: &str) -> anyhow::Result<String> {
    let mut prompt = text.to_owned();
    if text == "-" {
        prompt.clear();
        let read = std::io::stdin().lock().take(MAX_PROMPT).read_to_string(&mut prompt);
        read.context("cannot read the prompt from standard input")?;
    }
    if prompt.trim().is_empty() {
        return Err(Hinted::new("the prompt is empty", "`haft run --resume` goes on without one").into());
    }
    Ok(prompt)
}

impl ModelArgs {
    pub(super) fn settings(&self, program: &Program) -> AgentSettings {
        let agent = &program.manifest.agent;
        let workspace = program.grant.workspace().map(haft_core::grant::Root::path);
        let mut settings = AgentSettings::for_workspace(workspace);
        if let Some(system) = &agent.system_prompt {
            settings.system.clone_from(system);
        }
        settings.system = with_skills(settings.system, &program.skills);
        settings.max_repeats = agent.max_repeats;
        settings.history_budget = Some(agent.history_budget);
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

/// What the task came to: the answer as data, everything else as talk.
fn tell(outcome: &Outcome, id: Option<&str>, screen: &Screen, terminal: Terminal) -> anyhow::Result<()> {
    if screen.show() == Show::Json {
        return Ok(terminal.json_line(&json!({
            "event": "ended",
            "end": outcome.end,
            "text": outcome.text,
            "shortfall": outcome.shortfall(),
            "turns": outcome.turns,
            "model": outcome.model,
            "elapsed_ms": u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX),
            "input_tokens": outcome.usage.input,
            "output_tokens": outcome.usage.output,
            "cached_tokens": outcome.usage.cached,
            "cost_usd": outcome.usage.cost,
            "session": id,
        }))?);
    }
    if !screen.has_shown() {
        terminal.answer(&outcome.text)?;
    }
    if let Some(why) = outcome.shortfall() {
        terminal.say(format_args!("[{why}]"));
        let can_go_on = matches!(outcome.end, End::TurnCap | End::Cancelled);
        if let Some(id) = id.filter(|_| can_go_on && screen.show() == Show::All) {
            terminal.hint(&format!("`haft run --resume {id}` goes on with it"));
        }
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
