//! `run_shell`: runs a command on the backend's target. Always reports how a command ended, and never types
//! into one that still runs.

mod answer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use self::answer::{Streams, ended};
use super::deny::{self, Denied, command};
use crate::{Backend, BackendError, MAX_COMMAND};
use haft_core::call::{Hints, ToolCall, ToolDef, ToolResult};
use haft_core::limit::Limits;
use haft_core::tool::{Context, Subject, Tool, ToolError};
use haft_core::units::{format_duration, parse_duration};

/// The name of the tool.
pub const NAME: &str = "run_shell";

/// The `run_shell` tool.
#[derive(Debug)]
pub struct RunShell {
    def: ToolDef,
    backend: Arc<dyn Backend>,
    timeout: Duration,
    denied: Denied,
    /// Whether haft ends after the call, and with it a command that exceeded its time limit.
    one_call: bool,
}

impl RunShell {
    /// Creates a tool that runs commands on `backend`. `one_call`: haft ends after one call, and with it a command that
    /// exceeded its time limit.
    pub fn new(backend: Arc<dyn Backend>, timeout: Duration, denied: Denied, one_call: bool) -> Self {
        let hints = Hints { destructive: true, open_world: true, ..Hints::default() };
        let (name, description) = (NAME.into(), description(&*backend));
        let parameters = parameters(timeout, backend.has_pane());
        let def = ToolDef { name, description, parameters, hints, ..ToolDef::default() };
        Self { def, backend, timeout, denied, one_call }
    }

    async fn dispatched(&self, command: &str) -> Result<ToolResult, BackendError> {
        let pane = self.backend.dispatch(command).await?;
        Ok(ToolResult::success(format!(
            "command dispatched to tmux pane {pane}; `capture-pane` shows its output, `send-keys` with the \
             key `C-c` interrupts it"
        )))
    }

    async fn waited(
        &self,
        call: &ToolCall,
        command: &str,
        timeout: Duration,
        context: &Context<'_>,
    ) -> Result<ToolResult, BackendError> {
        let streams = Arc::new(Streams::new(&call.id, context.events));
        let end = self.backend.run(command, timeout, streams.clone(), context).await;
        let streams = streams.close();
        Ok(ended(end?, self.one_call, streams, timeout))
    }
}

fn description(backend: &dyn Backend) -> String {
    let target = backend.summary();
    let pane = if backend.has_pane() {
        " It runs in a tmux pane that a person may watch; `wait: false` leaves it there and returns at once."
    } else {
        " Standard input is empty."
    };
    format!(
        "Run a shell command with sh on the target ({target}) and return its exit code, standard output and \
         standard error. Every call is a new shell; background processes are stopped when the command \
         ends.{pane} Long output is cut in the middle."
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
                    format_duration(timeout)
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
            Wait::No => return self.dispatched(command).await.map_err(|error| failed(&error)),
            Wait::Usual => self.timeout,
            Wait::For(time) => time,
        };
        self.waited(call, command, timeout, context).await.map_err(|error| failed(&error))
    }
}

pub(super) fn failed(error: &BackendError) -> ToolError {
    ToolError::ExecutionFailed(error.to_string())
}

// The wait time of a call. Refuses invalid times.

/// The start of every refusal.
const FORMS: &str = "invalid wait duration; use forms like 30s, 10m, 1h, 500ms";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// The default time.
    Usual,
    /// No wait.
    No,
    For(Duration),
}

impl Wait {
    fn parse(value: Option<&Value>) -> Result<Self, String> {
        let time = match value {
            None | Some(Value::Null | Value::Bool(true)) => return Ok(Self::Usual),
            Some(Value::Bool(false)) => return Ok(Self::No),
            Some(Value::Number(number)) => number
                .as_u64()
                .map(Duration::from_secs)
                .ok_or_else(|| format!("{FORMS} (`wait` is {number}; a number is whole seconds, from 1)"))?,
            Some(Value::String(text)) => duration(text)
                .ok_or_else(|| format!("{FORMS} (`wait` is `{}`)", haft_core::report::plain(text)))?,
            Some(other) => return Err(format!("{FORMS}, true or false (`wait` is {other})")),
        };
        if time.is_zero() || time > Limits::MAX_TIME {
            return Err(format!("{FORMS} (at least 1ms and at most {})", format_duration(Limits::MAX_TIME)));
        }
        Ok(Self::For(time))
    }
}

/// Parses a time; a plain number is seconds.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    parse_duration(text).or_else(|_| parse_duration(&format!("{text}s"))).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: &Value) -> Result<Wait, String> {
        Wait::parse(Some(value))
    }

    /// RS03: every form of a time is accepted.
    #[test]
    fn every_form_of_a_wait_is_understood() {
        let time = |milliseconds| Ok(Wait::For(Duration::from_millis(milliseconds)));
        for (value, milliseconds) in [
            (json!("500ms"), 500),
            (json!("30s"), 30_000),
            (json!("10m"), 600_000),
            (json!("1h"), 3_600_000),
            (json!("1d"), 86_400_000),
            (json!("500"), 500_000),
            (json!(7), 7000),
            (json!(" 2s "), 2000),
        ] {
            assert_eq!(parse(&value), time(milliseconds), "{value}");
        }
        assert_eq!(parse(&json!(true)), Ok(Wait::Usual));
        assert_eq!(parse(&json!(null)), Ok(Wait::Usual));
        assert_eq!(parse(&json!(false)), Ok(Wait::No));
        assert_eq!(Wait::parse(None), Ok(Wait::Usual));
    }

    /// RS04: an invalid time is refused with the valid forms.
    #[test]
    fn what_is_no_wait_is_refused_with_the_forms() {
        for value in [
            json!("soon"),
            json!(""),
            json!("10x"),
            json!("1.5s"),
            json!("-3s"),
            json!(-1),
            json!(0),
            json!(1.5),
            json!("0s"),
            json!([]),
            json!({}),
            json!("99999999999999999999d"),
            json!(u64::MAX),
            json!("2d"),
        ] {
            let error = parse(&value).unwrap_err();
            assert!(
                error.starts_with("invalid wait duration; use forms like 30s, 10m, 1h, 500ms"),
                "{value}: {error}"
            );
        }
    }
}
