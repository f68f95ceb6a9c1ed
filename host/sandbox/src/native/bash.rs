//! `bash`: runs a command in the workspace to its end. Keeps no session: no variable and no process of a call
//! remains for the next.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::answer::{self, character_limit};
use super::deny::{self, Denied, command};
use crate::confine::Confiner;
use crate::process::{MAX_ARGUMENT, Output, ProcessSpec};
use haft_core::call::{Hints, ToolCall, ToolDef, ToolResult};
use haft_core::grant::RightsTable;
use haft_core::limit::Limits;
use haft_core::lookup::find_on_path;
use haft_core::tool::{Context, Subject, Tool, ToolError};
use haft_manifest::ProcessLimits;

/// The name of the tool.
pub const NAME: &str = "bash";
/// The default time limit of a command: enough for most builds and test runs.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);
/// The maximum time limit that a call may request.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_mins(10);

/// Limit on the bytes of one command. Longer content is data, and belongs in a file.
const MAX_COMMAND: usize = 1 << 20;

const DESCRIPTION: &str = "Run a command with bash in the workspace and return its output (standard output \
    and standard error in order) and its exit code if it is not 0. Standard input is empty. Every call is a \
    new shell; background processes are stopped when the command ends. Long output is cut in the middle.";

/// Runs a script that is too long for an argument: it is read from standard input, and its commands get an
/// empty one.
const FROM_INPUT: &str = r#"eval "$(</dev/stdin)" </dev/null"#;

/// The `bash` tool.
#[derive(Debug)]
pub struct Bash {
    def: ToolDef,
    confiner: Confiner,
    timeout: Duration,
    denied: Denied,
}

impl Bash {
    /// Returns a `bash` tool with a default time limit.
    pub fn new(confiner: Confiner, timeout: Duration) -> Self {
        let hints = Hints { destructive: true, open_world: true, ..Hints::default() };
        let (name, description) = (NAME.into(), DESCRIPTION.into());
        let def = ToolDef { name, description, parameters: parameters(timeout), hints, ..ToolDef::default() };
        Self { def, confiner, timeout, denied: Denied::default() }
    }

    /// Returns the tool with the rights of commands in its description, and without the `denied` commands.
    #[must_use]
    pub fn with(mut self, reach: &str, denied: Denied) -> Self {
        if !reach.is_empty() {
            self.def.description = format!("{} {reach}", self.def.description);
        }
        Self { denied, ..self }
    }

    fn timeout(&self, arguments: &Value) -> Result<Duration, ToolError> {
        let Some(asked) = arguments.get("timeout").filter(|asked| !asked.is_null()) else {
            return Ok(self.timeout);
        };
        let longest = longest(self.timeout);
        let seconds = asked.as_u64().filter(|seconds| (1..=longest.as_secs()).contains(seconds));
        seconds.map(Duration::from_secs).ok_or_else(|| {
            let expected = format!("expected whole seconds from 1 to {}", longest.as_secs());
            ToolError::InvalidArguments(format!("`timeout`: {expected}, not {asked}"))
        })
    }
}

/// Returns the limits of one call for a default time limit: the time of the longest command and of stopping it.
pub fn limits(timeout: Duration) -> Limits {
    answer::limits(longest(timeout))
}

/// Returns the maximum time limit: a default above [`MAX_TIMEOUT`] may be requested too.
fn longest(timeout: Duration) -> Duration {
    timeout.max(MAX_TIMEOUT)
}

fn parameters(timeout: Duration) -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command line or script to run"},
            "timeout": {
                "type": "integer",
                "description": format!("Time limit in seconds; default {}", timeout.as_secs_f64()),
                "minimum": 1,
                "maximum": longest(timeout).as_secs(),
            },
        },
        "required": ["command"],
        "additionalProperties": false,
    })
}

#[async_trait]
impl Tool for Bash {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn refusal(&self, arguments: &Value) -> Option<ToolError> {
        deny::refusal(arguments, &self.denied)
    }

    fn has_fixed_rights(&self) -> bool {
        self.confiner.is_open()
    }

    fn subject(&self, arguments: &Value) -> Subject {
        Subject::command(arguments, "command")
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let command = command(&call.arguments, MAX_COMMAND, "write data to a file first")?;
        let timeout = self.timeout(&call.arguments)?;
        let job = job(command, timeout, context.whole.room(character_limit(context.limits)))?;
        answer::run(&self.confiner, &job, call, &RightsTable::Sandbox, context).await
    }
}

fn job(command: &str, timeout: Duration, limit: usize) -> Result<ProcessSpec, ToolError> {
    let program = find_on_path(NAME).ok_or_else(|| {
        ToolError::ExecutionFailed("`bash` is not on PATH: install it and call again".to_owned())
    })?;
    let (script, input) =
        if command.len() <= MAX_ARGUMENT { (command, Vec::new()) } else { (FROM_INPUT, command.into()) };
    // `--` because a command may begin with `-`.
    let arguments = ["--noprofile", "--norc", "-c", "--", script].map(Into::into).to_vec();
    let (environment, output) = (Vec::new(), Output::Merged);
    let limits = ProcessLimits::default();
    Ok(ProcessSpec { program, arguments, environment, input, output, limit, timeout, limits })
}
