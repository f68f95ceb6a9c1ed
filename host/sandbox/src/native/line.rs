//! The command line of a model: the checks that `bash` and `run_shell` share before they start a process. Never
//! changes a command.

use serde_json::Value;

use super::deny::Denied;
use haft_core::tool::ToolError;

/// Returns the argument `command`, of at most `most` bytes. `instead` is the hint for a longer one.
pub(super) fn command<'a>(arguments: &'a Value, most: usize, instead: &str) -> Result<&'a str, ToolError> {
    let command = arguments.get("command").and_then(Value::as_str).unwrap_or_default();
    let problem = if command.trim().is_empty() {
        "`command` is required: the command line to run".to_owned()
    } else if command.contains('\0') {
        "`command` holds a NUL character, which no command line can".to_owned()
    } else if command.len() > most {
        format!("`command` has {} bytes, at most {most} can be run: {instead}", command.len())
    } else {
        return Ok(command);
    };
    Err(ToolError::InvalidArguments(problem))
}

/// Returns the reason why a command is refused, whether it was approved or not.
pub(super) fn refusal(arguments: &Value, denied: &Denied) -> Option<ToolError> {
    let command = arguments.get("command").and_then(Value::as_str)?;
    denied.refusal(command).map(ToolError::ExecutionFailed)
}
