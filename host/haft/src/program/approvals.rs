//! Approvals that program.toml asks for: the lines of it that have a person asked, for the answers to calls that nobody
//! approved of. Whether a person can be asked is up to the session.

/// `shell_confirm`.
pub(super) fn for_bash() -> String {
    "`shell_confirm = true` in `[builtins]`".into()
}

/// `confirm` of a command.
pub(super) fn for_command(name: &str) -> String {
    format!("`confirm = true` of `{name}` in `[[tools]]`")
}

/// `confirm` of a plugin.
pub(super) fn for_plugin(plugin: &str, tool: &str) -> String {
    format!("the pattern for `{tool}` in `confirm` of plugin `{plugin}`")
}

/// `fetch_confirm`.
pub(super) fn for_fetch() -> String {
    "`fetch_confirm = true` in `[builtins]`".into()
}

/// The same, where it stands in a program that an agent works for.
pub(super) fn of_caller(setting: &str) -> String {
    format!("{setting} of the program that calls this agent")
}
