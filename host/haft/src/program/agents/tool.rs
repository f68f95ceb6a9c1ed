//! The tool that offers an agent: its argument is a task, its answer the agent's last text. A run that ends early
//! is a failure that reports the progress.

use std::fmt::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::exposed;
use super::part::Part;
use super::ready::{Done, Ready};
use crate::program::family::MAX_DEPTH;
use crate::program::options::Options;
use crate::program::{ModelChoice, Program};
use haft_agent::planned;
use haft_agent::provider::{OutputSchema, Provider};
use haft_core::call::{Hints, ToolCall, ToolDef, ToolResult};
use haft_core::event::{Event, Events};
use haft_core::grant::Grant;
use haft_core::report::{Problem, Span};
use haft_core::sync::Lock;
use haft_core::tool::{Context, Session, Tool, ToolError};
use haft_manifest::AgentTool as Declared;
use haft_manifest::units::format_duration;

/// An agent as a tool.
pub(super) struct AgentTool {
    def: ToolDef,
    name: String,
    span: Span,
    kind: Kind,
    /// The most rights that the agent may have.
    grant: Grant,
    max_turns: Option<u32>,
    output: Option<Arc<OutputSchema>>,
}

/// A separate program, loaded at the first call. The next call repeats a failed load.
pub(super) struct Own {
    options: Options,
    program: OnceCell<Program>,
    provider: OnceCell<Arc<dyn Provider>>,
}

pub(super) enum Kind {
    /// A separate program.
    Program(Box<Own>),
    /// A part of the program that declares the agent.
    Part(Box<Part>),
}

impl AgentTool {
    /// Creates the agent `declared`. `grant` has the most rights that it may have.
    pub(super) fn new(declared: &Declared, kind: Kind, grant: Grant) -> Result<Self, Problem> {
        let read_only = matches!(&kind, Kind::Part(part) if part.only_reads());
        let name = declared.name.as_str().to_owned();
        let schema = declared.output.as_ref().map(|output| {
            OutputSchema::new(&output.value).map(Arc::new).map_err(|error| {
                let text = format!("`output` of agent `{name}` cannot be used: {error}");
                Problem::new(text).at(output.span, "this schema")
            })
        });
        let output = schema.transpose()?;
        let is_object = |schema: &&Value| schema.get("type").and_then(Value::as_str) == Some("object");
        let def = ToolDef {
            name: exposed(&name),
            title: None,
            description: declared.description.clone(),
            parameters: parameters(),
            hints: Hints { read_only, ..Hints::default() },
            // MCP clients accept only objects.
            output: declared.output.as_ref().map(|output| &output.value).filter(is_object).cloned(),
        };
        Ok(Self { def, name, span: declared.name.span, kind, grant, max_turns: declared.max_turns, output })
    }

    /// Returns the agent's name, and its place in the program that declares it.
    pub(super) fn place(&self) -> (&str, Span) {
        (&self.name, self.span)
    }

    pub(super) fn is_program(&self) -> bool {
        matches!(self.kind, Kind::Program(_))
    }

    /// Returns the loaded separate program; `None` for a part.
    pub(super) async fn program(&self) -> anyhow::Result<Option<&Program>> {
        match &self.kind {
            Kind::Part(_) => Ok(None),
            Kind::Program(own) => Ok(Some(own.program().await?)),
        }
    }

    /// Returns the agent with everything that a request to its model needs.
    pub(super) async fn ready(&self) -> anyhow::Result<Ready> {
        match &self.kind {
            Kind::Part(part) => part.ready().await,
            Kind::Program(own) => own.ready().await,
        }
    }

    /// Ends the running resources of the agent's program, if it was loaded.
    pub(super) fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        // A program closes its agents, whose programs close theirs.
        Box::pin(async move {
            if let Kind::Program(own) = &self.kind
                && let Some(program) = own.program.get()
            {
                program.close().await;
            }
        })
    }

    /// Returns the agent for this call, with the turn limit and the answer's schema of program.toml.
    async fn prepared(&self, context: &Context<'_>) -> anyhow::Result<Ready> {
        let mut ready = self.ready().await?;
        ready.settings.max_turns = self.max_turns.unwrap_or(ready.settings.max_turns);
        if self.output.is_some() {
            ready.settings.output.clone_from(&self.output);
        }
        if *context.grant != self.grant {
            ready.narrow(context.grant);
        }
        Ok(ready)
    }
}

impl Own {
    /// Creates the program that `options` load.
    pub(super) fn new(options: Options) -> Self {
        Self { options, program: OnceCell::new(), provider: OnceCell::new() }
    }

    async fn program(&self) -> anyhow::Result<&Program> {
        let load = || async {
            let program = Box::pin(Program::load(&self.options)).await?;
            for problem in program.problems.iter().filter(|problem| !problem.is_warning()) {
                tracing::warn!("{}: {}", program.manifest.path.display(), problem.message());
            }
            anyhow::Ok(program)
        };
        self.program.get_or_try_init(load).await
    }

    async fn ready(&self) -> anyhow::Result<Ready> {
        let program = self.program().await?;
        let choice = ModelChoice::default();
        let provider = self.provider.get_or_try_init(|| program.provider(&choice)).await?;
        Ready::of_program(program, self.options.under.as_ref(), provider.clone())
    }
}

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "task": {
                "type": "string",
                "minLength": 1,
                "description": "The task, and the form of the answer. The agent cannot see this \
                    conversation.",
            },
            "context": {
                "type": "string",
                "description": "Context for the task: findings, file names, constraints",
            },
        },
        "required": ["task"],
        "additionalProperties": false,
    })
}

/// Returns the prompt for the agent, in plan mode if the caller is in plan mode.
fn prompt(arguments: &Value, is_planning: bool) -> String {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default().trim();
    let task = match (text("task"), text("context")) {
        (task, "") => task.to_owned(),
        (task, context) => format!("{task}\n\n{context}"),
    };
    if is_planning { planned(task).text } else { task }
}

/// The progress of an agent.
#[derive(Default)]
struct Steps {
    turns: u32,
    /// The number of turns and calls: clients accept only increasing progress.
    all: u32,
}

/// Returns the session with its steps also sent to `to`, as progress of the call, which any client can show.
fn telling_progress(session: Session, call: &str, to: &Events) -> Session {
    if !to.has_listener() {
        return session;
    }
    let (inner, outer, call, so_far) =
        (session.events.clone(), to.clone(), call.to_owned(), Lock::new(Steps::default()));
    let events = Events::to(move |event| {
        inner.emit(|| event.clone());
        let mut so_far = so_far.lock();
        let message = match event {
            Event::Asked { .. } => {
                so_far.turns += 1;
                format!("turn {}", so_far.turns)
            }
            Event::Started(call) => format!("turn {}: {}", so_far.turns, call.tool),
            _ => return,
        };
        so_far.all += 1;
        let done = f64::from(so_far.all);
        outer.emit(|| Event::Progress { call: call.clone(), done, total: None, message });
    });
    Session { events, ..session }
}

#[async_trait]
impl Tool for AgentTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn is_agent(&self) -> bool {
        true
    }

    fn keeps_changes(&self) -> bool {
        // The calls of the agent's tools store their changes.
        true
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let session = context.session_of_agent(&self.name, &call.id);
        if session.lineage.depth() > MAX_DEPTH {
            let path = session.lineage.path().unwrap_or_default();
            let text = format!("agents may call each other at most {MAX_DEPTH} deep: {path}");
            return Err(ToolError::Host(text));
        }
        let session = telling_progress(session, &call.id, context.events);
        let cancel = session.cancel.clone();
        let work = async {
            let Some(ready) = cancel.run_until_cancelled(self.prepared(context)).await else {
                return Err(ToolError::Host(format!(
                    "agent `{}` was cancelled before it started",
                    self.name
                )));
            };
            let unusable = |error: anyhow::Error| {
                ToolError::Host(format!("agent `{}` cannot be used: {error:#}", self.name))
            };
            let task = prompt(&call.arguments, context.grant.is_planning());
            let run = ready.map_err(unusable)?.run(task, session, &self.name);
            Box::pin(run).await.map_err(|error| ToolError::Host(error.to_string()))
        };
        let mut work: Pin<Box<dyn Future<Output = Result<Done, ToolError>> + Send + '_>> = Box::pin(work);
        let (ended, is_late) = tokio::select! {
            ended = &mut work => (ended, false),
            // The agent stops its work; the caller waits briefly for that.
            () = tokio::time::sleep(context.limits.time) => {
                context.notes.timed_out();
                cancel.cancel();
                (work.await, true)
            }
        };
        Ok(answered(&self.name, &ended?, is_late.then_some(context.limits.time)))
    }
}

impl std::fmt::Debug for AgentTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentTool").field("name", &self.name).finish_non_exhaustive()
    }
}

// The agent's answer to its caller. An early end is an error with the reason, the progress, and the session.

/// Returns the answer to the call of `agent`; `time` is the exceeded time limit.
pub(super) fn answered(agent: &str, done: &Done, time: Option<Duration>) -> ToolResult {
    let Done { outcome, session } = done;
    let Some(why) = outcome.shortfall() else {
        // An agent that finished despite the time limit succeeded.
        let structured = outcome.output.clone().filter(Value::is_object);
        return ToolResult { structured, ..ToolResult::success(&outcome.text) };
    };
    let why = time.map_or(why, |time| format!("it was stopped after {}", format_duration(time)));
    let turns = if outcome.turns == 1 { "turn" } else { "turns" };
    let mut text = format!("agent `{agent}` did not finish, after {} {turns}: {why}", outcome.turns);
    if let Some(id) = session {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\nhint: `haft session show {id}` shows what it did");
    }
    if !outcome.text.trim().is_empty() {
        let _ = write!(text, "\n\nIts text so far:\n\n{}", outcome.text);
    }
    ToolResult::error(text)
}

#[cfg(test)]
mod tests {
    use haft_agent::{End, Outcome};

    use super::*;

    fn done(end: End, text: &str) -> Done {
        let outcome = Outcome {
            end,
            text: text.into(),
            turns: 2,
            usage: haft_agent::provider::Usage::default(),
            model: "m".into(),
            elapsed: Duration::ZERO,
            failure: None,
            output: None,
            detail: None,
            agents: std::collections::BTreeMap::default(),
        };
        Done { outcome, session: Some("3f9ac801".into()) }
    }

    #[test]
    fn only_a_task_that_is_done_is_a_success() {
        assert_eq!(answered("a", &done(End::Final, "so"), None), ToolResult::success("so"));
        let capped = answered("a", &done(End::TurnCap, "half"), None);
        assert!(
            capped.is_error && capped.content.contains("after 2 turns: reached max turns"),
            "{}",
            capped.content
        );
        assert!(capped.content.contains("haft session show 3f9ac801") && capped.content.ends_with("half"));
        let late = answered("a", &done(End::Cancelled, ""), Some(Duration::from_mins(1)));
        assert!(late.is_error && late.content.contains("it was stopped after 1m"), "{}", late.content);
    }
}
