//! The output of `haft --help`: the verbs in groups, on one screen.

use std::fmt::Write;

use clap::Command;

use super::disclosure_sheet::wrapped;

/// The options that may precede a verb.
const OPTIONS: &str = "Options: -p FILE (the program), --json, -v, -vv (more on standard error), -V";

/// The sources of further help.
const FURTHER: &str = "`haft VERB --help` explains a verb, `haft self exit-codes` the exit codes.";

/// The groups with their verbs.
const GROUPS: &[(&str, &[&str])] = &[
    ("Use tools", &["run", "chat", "call", "exec", "tools", "serve", "log", "session"]),
    (
        "Plugins and MCP servers",
        &["search", "add", "remove", "update", "list", "inspect", "wrap", "import", "mcp"],
    ),
    ("Program", &["init", "check", "doctor", "trust", "grant", "learn"]),
];

/// Columns before the description of a verb.
const INDENT: usize = 11;

/// Returns `command` with help in groups, in lines of at most `columns` columns. A verb without a group is listed by
/// its name.
pub(super) fn grouped(command: Command, columns: Option<usize>) -> Command {
    let mut text = String::from("{about}\n\n{usage-heading} {usage}\n");
    let indented = |about: &str| {
        let width = columns.map(|columns| columns.saturating_sub(INDENT));
        wrapped(about, width).join(&format!("\n{:INDENT$}", ""))
    };
    for (group, verbs) in GROUPS {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\n{group}:\n");
        for verb in verbs.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = verb.get_about().unwrap_or_default().to_string();
            let _ = writeln!(text, "  {:<8} {}", verb.get_name(), indented(&about));
        }
    }
    let is_listed = |name: &str| GROUPS.iter().any(|(_, verbs)| verbs.contains(&name));
    let further = command.get_subcommands().map(Command::get_name).filter(|name| !is_listed(name));
    let more = format!("More: {}", further.collect::<Vec<_>>().join(", "));
    for line in [more.as_str(), OPTIONS, FURTHER] {
        let _ = write!(text, "\n{}", wrapped(line, columns).join("\n"));
    }
    command.help_template(text)
}
