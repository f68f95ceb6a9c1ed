//! `haft run`: runs one task with a model and the program's tools. Standard output contains only the answer.

use crate::cli::common::Common;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::Exit;
use super::attach;
use super::model_args::ModelArgs;
use super::pipes;
use super::terminal::{Answers, DIM, Hinted, Screen, Show, Terminal};
use crate::cli::conversation::{Conversation, SessionName};
use haft::program::read_output;
use haft_agent::provider::{Prompt, ProviderError};
use haft_agent::{End, Outcome};
use haft_core::report::Report;
use haft_core::tool::AgentUse;

#[derive(Debug, Args)]
#[command(after_help = "The session is saved and can be resumed:
  haft run 'Find out why the build is slow'
  haft run --resume                        the unfinished task of the newest session here
  haft run --resume last 'Now fix it'
  haft run --resume 3f9ac801 'What did you find?'

Ctrl-C stops the task and saves the session; a second Ctrl-C quits at once.

More examples:
  haft run --base-url http://localhost:8080/v1 --model local 'Summarise README.md'
  git diff | haft run -                    the task from standard input
  haft run --schema answer.json 'Slow tests?'   JSON that matches a schema
  haft run --max-cost 0.50 'Fix the build'      stops at this cost; resume later
  haft run --plan 'Move the tests to pytest'    proposes; changes nothing
  haft run --attach page.png 'What is wrong on this page?'
  haft run --json 'What is here?' | jq -r 'select(.event == \"completed\") | .call.tool'")]
pub(super) struct Run {
    /// The task; `-` reads it from standard input. Optional with `--resume`
    #[arg(required_unless_present = "resume")]
    prompt: Option<String>,
    /// Resume a session: its id, the start of its id, or `last` for the newest session of this program in
    /// this folder
    #[arg(short, long, value_name = "ID", num_args = 0..=1, default_missing_value = "last", add = super::completions::sessions())]
    resume: Option<SessionName>,
    /// Plan mode: tools only read. At a terminal, haft asks at the end whether to carry out the plan
    #[arg(long)]
    plan: bool,
    /// Attach a file to the prompt: an image (PNG, JPEG, GIF, WebP), a PDF or a text. Repeatable
    #[arg(long, value_name = "FILE", requires = "prompt")]
    attach: Vec<PathBuf>,
    /// Print only the answer
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Return JSON that matches the JSON Schema in this file; overrides `[agent] output`
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    #[command(flatten)]
    choice: ModelArgs,
}

/// Maximum bytes of a prompt from standard input: more than any model reads.
const MAX_PROMPT: u64 = 16 << 20;

impl Run {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let show = match (terminal.json, self.quiet) {
            (true, _) => Show::Json,
            (false, true) => Show::Quiet,
            (false, false) => Show::All,
        };
        let prompt = self.prompt()?;
        let schema = self.schema.as_deref().map(read_output).transpose().map_err(Report::from)?;
        let answers = if common.verbose > 0 { Answers::Whole } else { Answers::Folded("-v") };
        let screen = Screen::new(terminal, show, answers);
        let mut conversation =
            Conversation::begin(common, terminal, &screen, "run", self.choice, self.resume.as_ref()).await?;
        let schema = schema.map_or_else(|| conversation.output(), |schema| Ok(Some(Arc::new(schema))))?;
        let is_typed = schema.is_some();
        if let Some(schema) = schema {
            screen.hold_words();
            conversation.dialogue.expect(schema);
        }
        // A new prompt without the option ends plan mode; a continued task keeps it.
        if self.plan || prompt.is_some() {
            conversation.dialogue.is_planning = self.plan;
        }
        let outcome = work(&mut conversation, prompt, &screen, terminal).await;
        let (id, resumable) = (conversation.dialogue.id(), conversation.resumable());
        let is_planning = conversation.dialogue.is_planning;
        conversation.close().await;
        let resumed = |end| resume_command(end, resumable.as_deref(), self.schema.as_deref());
        let cut_short = |end, why: &str| match screen.show {
            Show::Json => terminal.json_line(&cut_short(end, why, id.as_deref(), resumed(end).as_deref())),
            _ => Ok(()),
        };
        let outcome = match outcome {
            Ok(Some(outcome)) => outcome,
            Ok(None) => {
                cut_short(End::Cancelled, "quit at once")?;
                return Ok(Exit::Interrupted);
            }
            Err(error) => {
                cut_short(End::Failed, &format!("{error:#}"))?;
                return Err(error);
            }
        };
        let resume = resumed(outcome.end);
        if screen.show == Show::Json {
            terminal.json_line(&ended(&outcome, id.as_deref(), resume.as_deref()))?;
            return Ok(exit(&outcome));
        }
        match &outcome.output {
            Some(output) => terminal.json(output)?,
            // A reader of JSON receives only JSON.
            None if is_typed => terminal.message(&outcome.text),
            None if !screen.has_shown() => terminal.answer(&outcome.text)?,
            None => {}
        }
        if is_planning && outcome.end == End::Final && screen.show == Show::All {
            tell_way_on(id.as_deref(), terminal);
        }
        report_shortfall(&outcome, resume.filter(|_| screen.show == Show::All), terminal);
        Ok(exit(&outcome))
    }

    fn prompt(&self) -> anyhow::Result<Option<Prompt>> {
        let text = self.prompt.as_deref().map(prompt).transpose()?;
        let mut attachments = Vec::new();
        attach::read_all(&self.attach, &mut attachments)?;
        Ok(text.map(|text| Prompt { text, attachments }))
    }
}

/// The prompt after the user has agreed to a plan.
const CARRY_OUT: &str = "Carry out the plan.";

/// Runs a task. After a task in plan mode, runs the plan if a user at the terminal agrees.
async fn work(
    conversation: &mut Conversation,
    prompt: Option<Prompt>,
    screen: &Screen,
    terminal: Terminal,
) -> anyhow::Result<Option<Outcome>> {
    if conversation.dialogue.is_planning && screen.show == Show::All {
        terminal.message(format_args!("{DIM}plan mode: tools only read{DIM:#}"));
    }
    let outcome = conversation.task(prompt).await?;
    let is_plan = conversation.dialogue.is_planning
        && outcome.as_ref().is_some_and(|outcome| outcome.end == End::Final);
    // The user can agree only to a displayed plan.
    if !is_plan || !screen.has_shown() || !terminal.has_person() {
        return Ok(outcome);
    }
    if !terminal.confirm("Carry out this plan with the rights of the program?").await? {
        return Ok(outcome);
    }
    conversation.dialogue.is_planning = false;
    conversation.task(Some(CARRY_OUT.into())).await
}

/// Prints the command that carries out a plan.
fn tell_way_on(id: Option<&str>, terminal: Terminal) {
    if let Some(id) = id {
        terminal.hint(&format!("`haft run --resume {id} '{CARRY_OUT}'` carries it out"));
    }
}

/// Returns the prompt from the argument or from standard input.
fn prompt(text: &str) -> anyhow::Result<String> {
    let prompt = if text == "-" { pipes::input("the prompt", MAX_PROMPT)? } else { text.to_owned() };
    if prompt.trim().is_empty() {
        return Err(
            Hinted::new("the prompt is empty", "`haft run --resume` continues without a prompt").into()
        );
    }
    Ok(prompt)
}

fn ended(outcome: &Outcome, id: Option<&str>, resume: Option<&str>) -> Value {
    json!({
        "event": "ended",
        "end": outcome.end,
        "text": outcome.text,
        "output": outcome.output,
        "shortfall": outcome.shortfall(),
        "turns": outcome.turns,
        "model": outcome.model,
        "elapsed_ms": u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX),
        "input_tokens": outcome.usage.input,
        "output_tokens": outcome.usage.output,
        "cached_tokens": outcome.usage.cached,
        "cost_usd": outcome.usage.cost,
        "agents": agents(outcome),
        "session": id,
        "hint": outcome.failure.as_ref().and_then(ProviderError::hint),
        "resume": resume,
    })
}

/// Prints the reason for an incomplete answer, and the command that resumes the task.
fn report_shortfall(outcome: &Outcome, resume: Option<String>, terminal: Terminal) {
    match (&outcome.failure, outcome.shortfall()) {
        // The failure has its own hint.
        (Some(failure), _) => terminal.fail(&failure.clone().into()),
        (None, Some(why)) => terminal.message(format_args!("[{why}]")),
        (None, None) => {}
    }
    if let Some(command) = resume {
        terminal.hint(&format!("`{command}` resumes it"));
    }
}

/// Returns the result of a task as JSON if haft knows only `why` it ended.
fn cut_short(end: End, why: &str, id: Option<&str>, resume: Option<&str>) -> Value {
    json!({ "event": "ended", "end": end, "text": "", "shortfall": why, "session": id, "resume": resume })
}

/// Returns the use of agents that were called as tools, by their names.
fn agents(outcome: &Outcome) -> Value {
    let agent = |(name, used): (&String, &AgentUse)| {
        let AgentUse { turns, usage, .. } = used;
        let used = json!({
            "turns": turns,
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cached_tokens": usage.cached,
            "cost_usd": usage.cost,
        });
        (name.clone(), used)
    };
    Value::Object(outcome.agents.iter().map(agent).collect())
}

/// Returns the command that resumes an unfinished task, with the schema of its answer.
fn resume_command(end: End, id: Option<&str>, schema: Option<&Path>) -> Option<String> {
    let id = id.filter(|_| end.is_resumable())?;
    let schema = schema.map(|path| format!(" --schema {}", shell_words::quote(&path.to_string_lossy())));
    Some(format!("haft run --resume {id}{}", schema.unwrap_or_default()))
}

fn exit(outcome: &Outcome) -> Exit {
    match outcome.end {
        End::Final => Exit::Success,
        End::TurnCap | End::Budget => Exit::TurnCap,
        End::Cancelled => Exit::Interrupted,
        End::Length | End::Filtered | End::Refused | End::Invalid => Exit::Tool,
        End::Failed => Exit::Failure,
    }
}
