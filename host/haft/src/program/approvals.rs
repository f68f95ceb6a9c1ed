//! Approvals that program.toml asks for: the texts of the questions, and of the refusals. Whether a person can be
//! asked is up to the session.

use std::sync::Arc;

use serde_json::Value;

use haft_core::tool::Approval;
use haft_sandbox::native::command::CommandTool;

/// The answer to a command that was denied.
const COMMAND_DENIED: &str = "Command execution denied by user.";

/// The same of a plugin's tool.
const CALL_DENIED: &str = "Tool call denied by user.";

/// The same of a page.
const FETCH_DENIED: &str = "Fetch request denied by user.";

/// `shell_confirm`.
pub(super) fn for_bash() -> Approval {
    Approval {
        verb: "Run",
        what: Box::new(|arguments| text(arguments, "command")),
        denied: COMMAND_DENIED,
        setting: "`shell_confirm = true` in `[builtins]`".into(),
    }
}

/// `confirm` of a command.
pub(super) fn for_command(command: Arc<CommandTool>) -> Approval {
    let setting = format!("`confirm = true` of `{}` in `[[tools]]`", command.name());
    Approval {
        verb: "Run",
        what: Box::new(move |arguments| command.line(arguments)),
        denied: COMMAND_DENIED,
        setting,
    }
}

/// `confirm` of a plugin: what would be called, and with what.
pub(super) fn for_plugin(plugin: &str, tool: &str) -> Approval {
    let name = tool.to_owned();
    Approval {
        verb: "Call",
        what: Box::new(move |arguments| format!("{name} {arguments}")),
        denied: CALL_DENIED,
        setting: format!("the pattern for `{tool}` in `confirm` of plugin `{plugin}`"),
    }
}

/// `fetch_confirm`.
pub(super) fn for_fetch() -> Approval {
    Approval {
        verb: "Fetch",
        what: Box::new(|arguments| text(arguments, "url")),
        denied: FETCH_DENIED,
        setting: "`fetch_confirm = true` in `[builtins]`".into(),
    }
}

/// An argument that is a text; all arguments where it is not there.
fn text(arguments: &Value, name: &str) -> String {
    arguments.get(name).and_then(Value::as_str).map_or_else(|| arguments.to_string(), str::to_owned)
}
