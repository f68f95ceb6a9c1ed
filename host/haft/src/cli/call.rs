//! `haft call`: one tool, once.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::Exit;
use super::approvals;
use super::build;
use super::common::Common;
use super::completions;
use super::grant;
use super::pipes;
use super::terminal::{Hinted, Terminal, Tracer};
use haft_core::call::{ToolCall, ToolDef};
use haft_core::tool::{Keep, Notes, Session, clip};

mod flame;
mod recording;
mod trace;
use self::recording::Recording;
use self::trace::Trace;

/// The largest arguments read from standard input.
const MAX_INPUT: u64 = 64 << 20;

/// Characters of arguments that an error repeats.
const MAX_SHOWN: usize = 2000;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft call time
  haft call read '{\"file_path\": \"README.md\", \"limit\": 3}'
  haft call bash --arg command='git status'
  jq -n '{command: \"ls\"}' | haft call bash -")]
pub(super) struct Call {
    /// The tool's name
    #[arg(add = completions::tools())]
    tool: String,
    /// The arguments, a JSON object; `-` reads it from standard input
    #[arg(value_name = "JSON")]
    arguments: Option<String>,
    /// One argument; the value is text or JSON, as the tool's schema says
    #[arg(short, long = "arg", value_name = "NAME=VALUE", value_parser = pair, add = completions::arguments())]
    args: Vec<(String, String)>,
    /// Show what the plugin calls of its host, with times and refusals, and the memory it needs
    #[arg(long)]
    trace: bool,
    /// Draw where the plugin's time goes, one box a function (SVG); `FILE.folded` gets the stacks as text
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Write the plugin's memory and stack to a file where it traps
    #[arg(long, value_name = "FILE")]
    coredump: Option<PathBuf>,
    #[arg(skip)]
    tracer: OnceLock<Tracer>,
}

impl Call {
    pub(super) async fn execute(mut self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        // First, since it tells the terminal what to leave out of a complaint about the arguments.
        let (recording, tool) =
            (Recording::new(self.profile.take(), self.coredump.take()), self.tool.clone());
        Box::pin(build::freshen(common, terminal, &tool)).await?;
        let program = common.program_for(terminal, &tool, recording.recorder()).await?;
        let mut arguments = self.object()?;
        let def = program.toolbox.find(&self.tool).map(haft_core::tool::Entry::def);
        for (name, text) in self.args {
            let value = value(def, &name, text);
            arguments.insert(name, value);
        }
        let call = ToolCall { id: "call".into(), tool: self.tool, arguments: Value::Object(arguments) };
        let approvals = approvals::of(terminal.person(), &program, "call", terminal)?;
        let notes = Notes::recording();
        let widening = grant::widening_at(terminal, &program);
        let session = Session {
            approvals,
            widening,
            notes: notes.clone(),
            ..program.session("call", terminal.messages())
        };
        let cancel = session.cancel.clone();
        // Before the call is in the journal: a process that sees it there may interrupt it.
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to signals")?;
        let tools = program.typed_tools();
        let begun = Instant::now();
        let mut answer = std::pin::pin!(tools.dispatch(call, &session));
        let (result, interrupted) = tokio::select! {
            result = &mut answer => (result, false),
            _ = interrupt.recv() => {
                cancel.cancel();
                (answer.await, true)
            }
        };
        program.close().await;
        recording.write(&tool, terminal)?;
        let trace =
            self.tracer.get().map(|tracer| Trace::new(tracer.take(), &notes.notes(), begun.elapsed()));
        if let Some(trace) = trace.as_ref().filter(|_| !terminal.json) {
            terminal.message(trace.page());
        }
        for note in notes.notes().coerced {
            terminal.message(format!("note: {note}"));
        }
        match (terminal.json, result.is_error) {
            (true, _) => match trace {
                Some(trace) => terminal.json(&json!({ "result": result, "trace": trace.json() }))?,
                None => terminal.json(&result)?,
            },
            (false, true) => terminal.tool_error(&result.content),
            (false, false) => terminal.answer(&result.content)?,
        }
        Ok(match (interrupted, result.is_error) {
            (true, _) => Exit::Interrupted,
            (false, true) => Exit::Tool,
            (false, false) => Exit::Success,
        })
    }

    /// What sees the calls of the plugin, where they are to be shown.
    pub(super) fn tracer(&self) -> Option<Tracer> {
        self.trace.then(|| self.tracer.get_or_init(Tracer::default).clone())
    }

    /// The arguments given as JSON.
    fn object(&self) -> anyhow::Result<Map<String, Value>> {
        let text = match self.arguments.as_deref() {
            None => return Ok(Map::new()),
            Some("-") => pipes::input("the arguments", MAX_INPUT)?,
            Some(text) => text.to_owned(),
        };
        match haft_core::json::read(text.as_bytes()) {
            Ok(Value::Object(object)) => Ok(object),
            _ => Err(self.not_an_object(&text)),
        }
    }

    fn not_an_object(&self, text: &str) -> anyhow::Error {
        let text = text.trim();
        let shown = clip(text, MAX_SHOWN, Keep::Head);
        let problem = format!("the arguments are not a JSON object such as `{{\"path\": \"x\"}}`: `{shown}`");
        let is_name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
        match text.split_once('=') {
            Some((name, _)) if is_name(name) && text.len() <= MAX_SHOWN => {
                let pair = shell_words::quote(text);
                let hint = format!("one argument by itself: `haft call {} --arg {pair}`", self.tool);
                Hinted::new(problem, hint).into()
            }
            _ => anyhow::anyhow!(problem),
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// Text where the schema wants text, or knows nothing; else JSON, if it is JSON.
pub(super) fn value(def: Option<&ToolDef>, name: &str, text: String) -> Value {
    let schema = def.and_then(|def| def.parameters.get("properties")?.get(name)?.get("type"));
    let wants_text = match schema {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => true,
    };
    if wants_text { Value::String(text) } else { serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}
