//! `run_shell`: runs a command on the backend's target. Always reports how a command ended, and never types
//! into one that still runs.

mod answer;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use self::answer::{Fate, Streams, ended};
use self::wait::Wait;
use super::deny::{self, Denied, command};
use crate::{Backend, BackendError, MAX_COMMAND, Task};
use haft_core::call::{Hints, ToolCall, ToolDef, ToolResult};
use haft_core::limit::Limits;
use haft_core::tool::{Context, Subject, Tool, ToolError};

/// The name of the tool.
pub const NAME: &str = "run_shell";

/// The `run_shell` tool.
#[derive(Debug)]
pub struct RunShell {
    def: ToolDef,
    backend: Arc<dyn Backend>,
    /// The default time limit of a command.
    timeout: Duration,
    denied: Denied,
    /// Whether haft ends after the call, and with it a command that exceeded its time limit.
    one_call: bool,
}

impl RunShell {
    /// Creates a tool that runs commands on `backend`.
    pub fn new(backend: Arc<dyn Backend>, timeout: Duration, denied: Denied) -> Self {
        let hints = Hints { destructive: true, open_world: true, ..Hints::default() };
        let (name, description) = (NAME.into(), description(&*backend));
        let parameters = parameters(timeout, backend.screen().is_some());
        let def = ToolDef { name, description, parameters, hints, ..ToolDef::default() };
        Self { def, backend, timeout, denied, one_call: false }
    }

    /// Returns the tool for a haft that ends after one call, and with it a command that exceeded its time
    /// limit.
    #[must_use]
    pub fn for_one_call(self) -> Self {
        Self { one_call: true, ..self }
    }

    async fn dispatched(&self, command: &str, context: &Context<'_>) -> Result<ToolResult, BackendError> {
        let pane = self.backend.dispatch(command, context).await?;
        Ok(ToolResult::success(format!(
            "command dispatched to tmux pane {pane}; `capture-pane` shows what it does, `send-keys` with the key \
             `C-c` interrupts it"
        )))
    }

    async fn waited(
        &self,
        call: &ToolCall,
        command: &str,
        timeout: Duration,
        context: &Context<'_>,
    ) -> Result<ToolResult, BackendError> {
        let task = Task { command: command.to_owned(), timeout };
        let streams = Arc::new(Streams::new(&call.id, context.events));
        let end = self.backend.run(&task, streams.clone(), context).await;
        let streams = streams.close();
        let fate = if self.one_call { Fate::Ends } else { Fate::GoesOn };
        Ok(ended(end?, fate, streams, timeout))
    }
}

/// Returns the description for the model.
fn description(backend: &dyn Backend) -> String {
    let target = backend.summary();
    let pane = if backend.screen().is_some() {
        " It runs in a tmux pane that a person may watch; `wait: false` leaves it there and returns at once."
    } else {
        " Standard input is empty."
    };
    format!(
        "Run a shell command with sh on the target ({target}) and return its exit code, standard output and standard \
         error. Every call is a new shell; what a command leaves in the background is stopped when it ends.{pane} Of \
         long output the beginning and the end are shown."
    )
}

fn parameters(timeout: Duration, has_pane: bool) -> Value {
    let background = if has_pane { "; false to return at once and leave it in the pane" } else { "" };
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command line or script to run"},
            "wait": {
                "description": format!(
                    "How long to wait: true (default) for {}, a duration like \"500ms\", \"30s\", \"10m\", \"1h\", or \
                     whole seconds{background}",
                    wait::shown(timeout)
                ),
                "default": true,
            },
        },
        "required": ["command"],
        "additionalProperties": false,
    })
}

/// Returns the limits of one call: `wait` limits its time.
pub fn limits() -> Limits {
    Limits { time: Limits::MAX_TIME, ..Limits::default() }
}

#[async_trait]
impl Tool for RunShell {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn refusal(&self, arguments: &Value) -> Option<ToolError> {
        deny::refusal(arguments, &self.denied)
    }

    fn has_fixed_rights(&self) -> bool {
        // The rights are those of the target.
        true
    }

    fn subject(&self, arguments: &Value) -> Subject {
        Subject::command(arguments, "command")
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let command = command(&call.arguments, MAX_COMMAND, "write data to a file first with `write_file`")?;
        let wait = Wait::parse(call.arguments.get("wait")).map_err(ToolError::InvalidArguments)?;
        context.notes.decision(|| format!("on {}, {}", self.backend.summary(), self.backend.confinement()));
        let timeout = match wait {
            Wait::No if self.backend.screen().is_none() => {
                return Err(failed(&BackendError::NoPane { target: self.backend.summary() }));
            }
            Wait::No => return self.dispatched(command, context).await.map_err(|error| failed(&error)),
            Wait::Usual => self.timeout,
            Wait::For(time) => time,
        };
        self.waited(call, command, timeout, context).await.map_err(|error| failed(&error))
    }
}

pub(super) fn failed(error: &BackendError) -> ToolError {
    ToolError::ExecutionFailed(error.to_string())
}
